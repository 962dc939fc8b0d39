//! The manual pages: one for `surmise`, one for each subcommand, made from the definition of the
//! command line, so that they say what `--help` says, and from [`sections`], which is what `--help`
//! has no room for.

mod sections;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, roman};

use sections::Section;

/// One manual page.
pub struct Page {
    command: Command,
    /// The names of all pages.
    names: Vec<String>,
}

impl Page {
    /// All of them; `command` is the whole of `surmise`.
    pub fn all(command: Command) -> Vec<Self> {
        let mut command = command
            .disable_help_subcommand(true)
            .subcommand_value_name("COMMAND")
            .subcommand_help_heading("COMMANDS");
        command.build();
        let subcommands: Vec<_> = command.get_subcommands().cloned().collect();
        let commands: Vec<_> = [command].into_iter().chain(subcommands).collect();
        let names: Vec<_> = commands.iter().map(name).collect();
        commands
            .into_iter()
            .map(|command| Self {
                command,
                names: names.clone(),
            })
            .collect()
    }

    /// As `man` looks for it.
    pub fn file_name(&self) -> String {
        format!("{}.1", name(&self.command))
    }

    /// The page for roff.
    pub fn text(&self) -> Vec<u8> {
        let man = Man::new(without_repetition(self.command.clone()));
        // Without a date, so that the same source gives the same page.
        let title = format!(
            ".TH {} 1 \"\" \"surmise {}\" \"Surmise manual\"\n",
            name(&self.command).to_uppercase(),
            env!("CARGO_PKG_VERSION")
        );
        let mut text = title.into_bytes();
        let generated = [
            Man::render_name_section,
            Man::render_synopsis_section,
            Man::render_description_section,
            Man::render_options_section,
        ];
        for render in generated {
            into(&mut text, |text| render(&man, text));
        }
        if self.command.has_subcommands() {
            into(&mut text, |text| man.render_subcommands_section(text));
        }
        let after_help = self.command.get_after_help().map(ToString::to_string);
        let (examples, others): (Vec<_>, Vec<_>) =
            blocks(after_help.as_deref().unwrap_or_default())
                .into_iter()
                .partition(|block| block.title == "EXAMPLES");
        let mut roff = Roff::new();
        for block in &others {
            block.render(&mut roff);
        }
        // What `--help` says itself is said once.
        let said = |section: &&Section| others.iter().any(|block| block.title == section.title);
        let sections = sections::of(self.command.get_name()).iter();
        sections
            .filter(|section| !said(section))
            .for_each(|section| render(section, &mut roff));
        for block in &examples {
            block.render(&mut roff);
        }
        self.see_also(&mut roff);
        into(&mut text, |mut text| roff.to_writer(&mut text));
        with_bold_code(&text)
    }

    fn see_also(&self, roff: &mut Roff) {
        let own = name(&self.command);
        let pages = self.names.iter().filter(|name| **name != own);
        let pages = pages.map(|name| (name.as_str(), "1"));
        let all: Vec<_> = pages
            .chain(sections::see_also(self.command.get_name()).iter().copied())
            .collect();
        roff.control("SH", ["SEE ALSO"]);
        let mut line: Vec<Inline> = Vec::new();
        for (index, (name, section)) in all.iter().enumerate() {
            let comma = if index + 1 == all.len() { "" } else { ", " };
            line.push(bold(*name));
            line.push(roman(format!("({section}){comma}")));
        }
        roff.text(line);
    }
}

/// The first line of the description is in the page's name already.
fn without_repetition(command: Command) -> Command {
    let long = command.get_long_about().map(ToString::to_string);
    match long.as_deref().and_then(|text| text.split_once("\n\n")) {
        Some((_, rest)) => command.long_about(rest.to_owned()),
        None => command,
    }
}

/// What stands in backquotes, in bold. Both quotes of a pair are in one line of roff, which is a
/// paragraph.
fn with_bold_code(text: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(text);
    let mut page = String::new();
    for line in text.lines() {
        let parts: Vec<_> = line.split(BACKQUOTE).collect();
        let paired = parts.len() % 2 == 1;
        for (index, part) in parts.iter().enumerate() {
            match (index, index % 2) {
                (0, _) => {}
                (_, 1) if paired => page.push_str("\\fB"),
                _ if paired => page.push_str("\\fR"),
                _ => page.push_str(BACKQUOTE),
            }
            page.push_str(part);
        }
        page.push('\n');
    }
    page.into_bytes()
}

/// As roff has it.
const BACKQUOTE: &str = "`";

/// With a dash between the command and its subcommand.
fn name(command: &Command) -> String {
    let name = command.get_display_name().unwrap_or(command.get_name());
    name.to_owned()
}

/// Writing to memory does not fail.
fn into(text: &mut Vec<u8>, write: impl FnOnce(&mut dyn std::io::Write) -> std::io::Result<()>) {
    write(text).expect("memory takes what is written to it");
}

fn render(section: &Section, roff: &mut Roff) {
    roff.control("SH", [section.title]);
    if !section.text.is_empty() {
        roff.text([roman(section.text)]);
    }
    for (term, text) in section.entries {
        roff.control("TP", []);
        roff.text([bold(*term)]);
        roff.text([roman(*text)]);
    }
}

/// A part of what `--help` says at its end: a line with a colon, and indented lines.
struct Block<'a> {
    title: String,
    lines: Vec<&'a str>,
}

fn blocks(help: &str) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block> = Vec::new();
    for line in help.lines() {
        match (line.strip_suffix(':'), blocks.last_mut()) {
            (Some(title), _) if !line.starts_with(' ') => blocks.push(Block {
                title: title.to_uppercase(),
                lines: Vec::new(),
            }),
            (_, Some(block)) if !line.is_empty() => {
                block.lines.push(line.strip_prefix("  ").unwrap_or(line));
            }
            _ => {}
        }
    }
    blocks
}

impl Block<'_> {
    /// As it stands: its columns are made with spaces.
    fn render(&self, roff: &mut Roff) {
        roff.control("SH", [self.title.as_str()]);
        roff.control("nf", []);
        for line in &self.lines {
            roff.text([roman(*line)]);
        }
        roff.control("fi", []);
    }
}
