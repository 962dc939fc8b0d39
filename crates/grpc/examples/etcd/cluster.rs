//! Three nodes of etcd.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::kv::Kv;
use crate::proxy;

const NODES: usize = 3;

/// How long they may take to agree on a leader.
const START_MAX: Duration = Duration::from_secs(30);

/// Everything that was started; dropped, it ends.
pub struct Cluster {
    nodes: Vec<Node>,
    _proxies: JoinSet<()>,
    _data: TempDir,
    follower: usize,
}

struct Node {
    process: Child,
    client: SocketAddr,
}

impl Drop for Node {
    fn drop(&mut self) {
        // What they know goes with their directory.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Why there is no cluster.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    #[error("start {program}: {source}")]
    Start {
        program: String,
        #[source]
        source: io::Error,
    },
    #[error("listen: {0}")]
    Listen(#[from] io::Error),
    #[error("the nodes did not agree on a leader within {} s", START_MAX.as_secs())]
    Leaderless,
}

impl Cluster {
    /// Starts the nodes, and what makes them `one_way` far from each other, and waits until they have a
    /// leader.
    pub async fn start(program: &Path, one_way: Duration) -> Result<Self, ClusterError> {
        let data = TempDir::new()?;
        let mut proxies = JoinSet::new();
        let mut places = Vec::new();
        for _ in 0..NODES {
            let (client, peer) = (free_address().await?, free_address().await?);
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
            let shown = listener.local_addr()?;
            proxies.spawn(proxy::relay(listener, peer, one_way));
            places.push(Place {
                client,
                peer,
                shown,
            });
        }
        let all: Vec<_> = places.iter().map(|place| place.shown).collect();
        let start = |(number, place): (usize, &Place)| {
            let process = place.command(program, number, &all, data.path()).spawn();
            let client = place.client;
            process.map(|process| Node { process, client })
        };
        let nodes: io::Result<Vec<_>> = places.iter().enumerate().map(start).collect();
        let nodes = nodes.map_err(|source| ClusterError::Start {
            program: program.display().to_string(),
            source,
        })?;
        let mut cluster = Self {
            nodes,
            _proxies: proxies,
            _data: data,
            follower: 0,
        };
        cluster.follower = cluster.find_follower().await?;
        Ok(cluster)
    }

    /// The address of a node that does not lead: whoever is near the leader is lucky.
    pub fn follower(&self) -> String {
        url(self.nodes[self.follower].client)
    }

    async fn find_follower(&self) -> Result<usize, ClusterError> {
        let deadline = Instant::now() + START_MAX;
        while Instant::now() < deadline {
            for (number, node) in self.nodes.iter().enumerate() {
                let Ok(kv) = Kv::connect(url(node.client)).await else {
                    continue;
                };
                let Ok(status) = kv.status().await else {
                    continue;
                };
                let own = status.header.map(|header| header.member_id);
                if status.leader != 0 && own != Some(status.leader) {
                    return Ok(number);
                }
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Err(ClusterError::Leaderless)
    }
}

/// Where a node listens, and where the others find it.
struct Place {
    client: SocketAddr,
    peer: SocketAddr,
    shown: SocketAddr,
}

impl Place {
    fn command(&self, program: &Path, number: usize, all: &[SocketAddr], data: &Path) -> Command {
        let name = |number: usize| format!("node{number}");
        let cluster: Vec<_> = all
            .iter()
            .enumerate()
            .map(|(number, shown)| format!("{}={}", name(number), url(*shown)))
            .collect();
        let mut command = Command::new(program);
        command
            .args(["--name", &name(number), "--data-dir"])
            .arg(data.join(name(number)))
            .args(["--listen-client-urls", &url(self.client)])
            .args(["--advertise-client-urls", &url(self.client)])
            .args(["--listen-peer-urls", &url(self.peer)])
            .args(["--initial-advertise-peer-urls", &url(self.shown)])
            .args(["--initial-cluster", &cluster.join(",")])
            .args(["--heartbeat-interval", "150", "--election-timeout", "1500"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }
}

fn url(address: SocketAddr) -> String {
    format!("http://{address}")
}

/// One that nobody listens on now.
async fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await?
        .local_addr()
}
