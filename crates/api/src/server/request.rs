//! What a client asked to be run, as it can be run.

use surmise_kept::{Boundary, Peer, Policy, Rule, Verdict};
use surmise_supervisor::{Guessing, Right, Torture};
use surmise_sync::Promise;

use crate::launch::{Files, Launch};
use crate::protocol::{
    BoundaryParams, FilesParam, PromiseParam, RightParams, Run, Stdin, Stdout, SyncParams,
};
use crate::running::{Redirect, Streams};
use crate::synchrony::{Elsewhere, Synchrony};
use crate::text::Text;

/// A command to be run. Whether syncs can be put off is found out by the process that runs it.
#[derive(Clone, Debug)]
pub(super) struct Prepared {
    pub(super) launch: Launch,
    /// The directory that is the real one.
    pub(super) through: Option<std::path::PathBuf>,
    pub(super) sync: Option<Synchrony>,
    pub(super) streams: Streams,
    /// Whether the request says what crosses the boundary.
    pub(super) has_boundary: bool,
}

impl Prepared {
    /// # Errors
    /// When the values of the parameters make no sense; what is wrong, for people.
    pub(super) fn of(params: &Run) -> Result<Self, String> {
        if params.command.is_empty() {
            return Err("command: no program".into());
        }
        let words = params.command.iter().map(|word| argument("command", word));
        let boundary = params.boundary.as_ref();
        let launch = Launch {
            name: params.name.clone(),
            command: words.collect::<Result<_, _>>()?,
            directory: path("directory", &params.directory)?,
            environment: environment(params)?,
            boundary: boundary.map(policy).transpose()?.unwrap_or_default(),
            wait: params.wait,
            tells_refusals: true,
            native: params.native,
            files: match params.files {
                FilesParam::Undone => Files::Undone,
                FilesParam::Real => Files::Real,
            },
            through: None,
            sync: None,
            guessing: guessing(params)?,
        };
        if launch.boundary.net.default == Verdict::Ask && !params.asks {
            return Err("boundary.net: ask, and asks is false".into());
        }
        let output = |to| match to {
            Stdout::Null => Redirect::Null,
            Stdout::Client => Redirect::Pipe,
        };
        Ok(Self {
            launch,
            through: params
                .through
                .as_ref()
                .map(|through| path("through", through))
                .transpose()?,
            sync: params.sync.as_ref().map(synchrony).transpose()?,
            streams: Streams {
                stdin: match params.stdin {
                    Stdin::Null => Redirect::Null,
                    Stdin::Client => Redirect::Pipe,
                },
                stdout: output(params.stdout),
                stderr: output(params.stderr),
            },
            has_boundary: boundary.is_some(),
        })
    }
}

fn argument(what: &str, text: &Text) -> Result<std::ffi::OsString, String> {
    text.to_os().ok_or_else(|| format!("{what}: a zero byte"))
}

/// An absolute path.
pub(super) fn path(what: &str, text: &Text) -> Result<std::path::PathBuf, String> {
    let path = std::path::PathBuf::from(argument(what, text)?);
    match path.is_absolute() {
        true => Ok(path),
        false => Err(format!("{what}: {} is no absolute path", path.display())),
    }
}

type Variable = (std::ffi::OsString, Option<std::ffi::OsString>);

fn environment(params: &Run) -> Result<Vec<Variable>, String> {
    let variable = |(name, value): (&String, &Option<Text>)| {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(format!("environment: {name:?} is no name of a variable"));
        }
        let value = value.as_ref().map(|value| argument("environment", value));
        Ok((name.into(), value.transpose()?))
    };
    params.environment.iter().map(variable).collect()
}

fn policy(params: &BoundaryParams) -> Result<Boundary, String> {
    let rules = |hosts: &[String], verdict| -> Result<Vec<Rule>, String> {
        let rule = |host: &String| {
            let peer: Peer = host.parse().map_err(|error| format!("boundary: {error}"))?;
            Ok(Rule {
                host: peer.host,
                port: peer.port,
                verdict,
            })
        };
        hosts.iter().map(rule).collect()
    };
    if params.publish.contains(&0) {
        return Err("boundary.publish: port 0".into());
    }
    let sockets = params.sockets.iter();
    let sockets = sockets.map(|socket| path("boundary.sockets", socket));
    Ok(Boundary {
        net: Policy {
            default: params.net.into(),
            rules: [
                rules(&params.allow_net, Verdict::Allow)?,
                rules(&params.hold_net, Verdict::Hold)?,
            ]
            .concat(),
        },
        publish: params.publish.clone(),
        sockets: sockets.collect::<Result<_, _>>()?,
        hold_streams: params.hold_streams,
        ..Boundary::default()
    })
}

fn guessing(params: &Run) -> Result<Vec<Guessing>, String> {
    let rate = |name, rate: f64| match rate > 0.0 && rate <= 1.0 {
        true => Ok(rate),
        false => Err(format!("{name}: {rate} is not above 0 and at most 1")),
    };
    let mut sources = Vec::new();
    if let Some(torture) = &params.torture {
        let (seed, rate) = (torture.seed, rate("torture.rate", torture.rate)?);
        sources.push(Guessing::Torture(Torture { seed, rate }));
    }
    if let Some(right) = &params.predict_right {
        let rate = rate("predict_right.rate", right.rate)?;
        let milliseconds = right.delay_ms;
        let longest = RightParams::DELAY_MS_MAX;
        if !(1..=longest).contains(&milliseconds) {
            return Err(format!(
                "predict_right.delay_ms: {milliseconds} is not from 1 to {longest}"
            ));
        }
        let delay = std::time::Duration::from_millis(milliseconds);
        let wrong = right.wrong;
        if !(0.0..=1.0).contains(&wrong) {
            return Err(format!("predict_right.wrong: {wrong} is not from 0 to 1"));
        }
        sources.push(Guessing::Right(Right { rate, delay, wrong }));
    }
    Ok(sources)
}

fn synchrony(params: &SyncParams) -> Result<Synchrony, String> {
    let milliseconds = params.interval_ms;
    if !(1..=SyncParams::INTERVAL_MS_MAX).contains(&milliseconds) {
        let longest = SyncParams::INTERVAL_MS_MAX;
        return Err(format!(
            "sync.interval_ms: {milliseconds} is not from 1 to {longest}"
        ));
    }
    let on = params.on.as_ref().map(|on| path("sync.on", on));
    Ok(Synchrony {
        on: on.transpose()?,
        volume: None,
        elsewhere: Elsewhere::Watched,
        promise: match params.promise {
            PromiseParam::Fsync => Promise::Fsync,
            PromiseParam::Write => Promise::Write,
        },
        interval: std::time::Duration::from_millis(milliseconds),
        eager: params.eager,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::TortureParams;

    fn of(change: impl FnOnce(&mut Run)) -> Result<Prepared, String> {
        let mut run = Run {
            command: vec!["true".into()],
            directory: "/".into(),
            ..Run::default()
        };
        change(&mut run);
        Prepared::of(&run)
    }

    #[test]
    fn values_that_make_no_sense_are_named() {
        assert!(of(|_| {}).is_ok());
        let boundary = |change: fn(&mut BoundaryParams)| {
            let mut params = BoundaryParams::default();
            change(&mut params);
            of(|run| run.boundary = Some(params)).expect_err("wrong")
        };
        assert!(boundary(|b| b.net = crate::protocol::Net::Ask).contains("asks"));
        assert!(boundary(|b| b.publish = vec![0]).contains("publish"));
        assert!(boundary(|b| b.allow_net = vec!["a:b:c".into()]).contains("boundary"));
        assert!(boundary(|b| b.sockets = vec!["x".into()]).contains("absolute"));
        type Change = fn(&mut Run);
        let wrong: [(Change, &str); 6] = [
            (|run| run.command.clear(), "command"),
            (|run| run.command.push(Text(vec![0])), "zero"),
            (|run| run.directory = "x".into(), "directory"),
            (
                |run| drop(run.environment.insert("A=".into(), None)),
                "environment",
            ),
            (
                |run| run.torture = Some(TortureParams { seed: 0, rate: 0.0 }),
                "torture.rate",
            ),
            (
                |run| {
                    run.sync = Some(SyncParams {
                        on: None,
                        promise: PromiseParam::Fsync,
                        interval_ms: 0,
                        eager: false,
                    });
                },
                "interval_ms",
            ),
        ];
        for (change, named) in wrong {
            let error = of(change).expect_err(named);
            assert!(error.contains(named), "{error}");
        }
    }
}
