//! DNS messages: RFC 1035, as far as a proxy must understand them.
//!
//! The library that reads and writes them stays in this file. It refuses messages with a question of
//! a type or class that it does not know, or with a flag bit set that has no meaning yet; a proxy has
//! to let them pass. So every message goes through [`tame`] first.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use simple_dns::rdata::{A, AAAA, OPT, RData, SVCB, SVCParam};
use simple_dns::{
    CLASS, Name, OPCODE, Packet, PacketFlag, QCLASS, QTYPE, RCODE, ResourceRecord, TYPE,
};

use crate::peer::normal;

/// Seconds for which the domain may keep an answer of ours.
const TTL: u32 = 60;
const HEADER_LENGTH: usize = 12;
/// What fits into one UDP datagram everywhere, by common agreement.
const UDP_SIZE: u16 = 1232;
/// How many names an answer may make one; real chains of aliases are shorter.
const NAMES_MAX: usize = 16;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Question {
    /// The name in lower case, without the dot at the end, in printable ASCII: bytes of other sorts,
    /// and dots inside of labels, are `\` and three decimal digits.
    pub name: String,
    /// What about it.
    pub kind: Kind,
}

/// What is asked about a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Its IPv4 addresses.
    V4,
    /// Its IPv6 addresses.
    V6,
    /// Anything else, by its number; also what is asked in other classes than IN.
    Other(u16),
}

/// A query with one question.
#[derive(Clone, Debug)]
pub struct Query {
    tamed: Tamed,
    question: Question,
}

/// What an answer tells that matters to a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The name asked for, and those that it is another name for. Lower case, without last dot.
    pub names: Vec<String>,
    /// The addresses of these names.
    pub addresses: Vec<IpAddr>,
    /// It was cut off: to be asked again over TCP.
    pub truncated: bool,
    /// There is no such name.
    pub no_such_name: bool,
    /// The server could not or would not tell.
    pub failed: bool,
}

impl Query {
    /// Reads a query. Nothing for what is none, or has not exactly one question;
    /// [`format_error`] is the reply to that.
    #[must_use]
    pub fn parse(message: &[u8]) -> Option<Self> {
        let tamed = tame(message)?;
        let packet = Packet::parse(&tamed.bytes).ok()?;
        let query = !packet.has_flags(PacketFlag::RESPONSE);
        if !query || packet.opcode() != OPCODE::StandardQuery {
            return None;
        }
        let question = Question {
            name: printable(&packet.questions.first()?.qname),
            kind: tamed.kind(),
        };
        Some(Self { tamed, question })
    }

    /// A query of our own. Nothing when the name is too long or has an empty label.
    #[must_use]
    pub fn new(id: u16, name: &str, kind: Kind) -> Option<Self> {
        let number = match kind {
            Kind::V4 => TYPE::A.into(),
            Kind::V6 => TYPE::AAAA.into(),
            Kind::Other(number) => number,
        };
        let mut packet = Packet::new_query(id);
        packet.set_flags(PacketFlag::RECURSION_DESIRED);
        let name = Name::new(name).ok()?;
        let (kind, class) = (QTYPE::TYPE(TYPE::A), QCLASS::CLASS(CLASS::IN));
        let question = simple_dns::Question::new(name, kind, class, false);
        packet.questions.push(question);
        let mut bytes = packet.build_bytes_vec().ok()?;
        let end = question_end(&bytes)?;
        bytes[end - 4..end - 2].copy_from_slice(&number.to_be_bytes());
        Self::parse(&bytes)
    }

    /// What is asked.
    #[must_use]
    pub fn question(&self) -> &Question {
        &self.question
    }

    /// The number by which the answer is known.
    #[must_use]
    pub fn id(&self) -> u16 {
        u16::from_be_bytes([self.tamed.bytes[0], self.tamed.bytes[1]])
    }

    /// The whole query, byte by byte as it was read, with another number.
    #[must_use]
    pub fn with_id(&self, id: u16) -> Vec<u8> {
        let mut bytes = self.tamed.wild(self.tamed.bytes.clone());
        bytes[3] |= self.tamed.reserved;
        bytes[..2].copy_from_slice(&id.to_be_bytes());
        bytes
    }

    /// The reply with those of `addresses` that are of the kind asked for, kept for a minute. With
    /// none of them it says that the name has nothing of this kind.
    #[must_use]
    pub fn addresses(&self, addresses: &[IpAddr]) -> Vec<u8> {
        let data = addresses.iter().filter_map(|&address| match address {
            IpAddr::V4(v4) if self.question.kind == Kind::V4 => {
                Some(RData::A(A { address: v4.into() }))
            }
            IpAddr::V6(v6) if self.question.kind == Kind::V6 => {
                Some(RData::AAAA(AAAA { address: v6.into() }))
            }
            _ => None,
        });
        self.reply(RCODE::NoError, data.collect())
    }

    /// The reply that policy forbids an answer.
    #[must_use]
    pub fn refused(&self) -> Vec<u8> {
        self.reply(RCODE::Refused, Vec::new())
    }

    /// The reply that there is no such name.
    #[must_use]
    pub fn no_such_name(&self) -> Vec<u8> {
        self.reply(RCODE::NameError, Vec::new())
    }

    /// The reply that no server could be asked.
    #[must_use]
    pub fn failed(&self) -> Vec<u8> {
        self.reply(RCODE::ServerFailure, Vec::new())
    }

    /// The reply that tells the asker to come again over TCP.
    #[must_use]
    pub fn truncated(&self) -> Vec<u8> {
        let mut reply = self.reply(RCODE::NoError, Vec::new());
        reply[2] |= (PacketFlag::TRUNCATION.bits() >> 8) as u8;
        reply
    }

    fn reply(&self, code: RCODE, data: Vec<RData<'_>>) -> Vec<u8> {
        let read = Packet::parse(&self.tamed.bytes).expect("it was read before");
        let mut reply = Packet::new_reply(read.id());
        reply.set_flags(PacketFlag::RECURSION_AVAILABLE);
        if read.has_flags(PacketFlag::RECURSION_DESIRED) {
            reply.set_flags(PacketFlag::RECURSION_DESIRED);
        }
        *reply.rcode_mut() = code;
        *reply.opt_mut() = read.opt().map(|_| OPT {
            opt_codes: Vec::new(),
            udp_packet_size: UDP_SIZE,
            version: 0,
        });
        let name = &read.questions[0].qname;
        let records = data.into_iter();
        reply.answers = records
            .map(|data| ResourceRecord::new(name.clone(), CLASS::IN, TTL, data))
            .collect();
        reply.questions = read.questions.clone();
        let bytes = reply.build_bytes_vec_compressed();
        // The question is the first thing that is written, so it lies where it lay in the query.
        self.tamed
            .wild(bytes.expect("a name that was read can be written"))
    }

    /// Reads a server's answer. Nothing when it cannot be read, or answers something else: another
    /// number, another question, no response at all.
    #[must_use]
    pub fn read_answer(&self, message: &[u8]) -> Option<Answer> {
        let tamed = tame(message)?;
        let packet = Packet::parse(&tamed.bytes).ok()?;
        let asked = &packet.questions.first()?.qname;
        let mine = packet.has_flags(PacketFlag::RESPONSE)
            && packet.id() == self.id()
            && tamed.kind_and_class == self.tamed.kind_and_class
            && printable(asked) == self.question.name;
        if !mine {
            return None;
        }
        let names = follow(asked, &packet.answers);
        let mut addresses: Vec<IpAddr> = Vec::new();
        for record in &packet.answers {
            if record.class == CLASS::IN && names.contains(&record.name) {
                addresses.extend(addresses_in(&record.rdata));
            }
        }
        addresses.dedup();
        let code = packet.rcode();
        Some(Answer {
            names: names.iter().map(printable).collect(),
            addresses,
            truncated: packet.has_flags(PacketFlag::TRUNCATION),
            no_such_name: code == RCODE::NameError,
            failed: !matches!(code, RCODE::NoError | RCODE::NameError),
        })
    }
}

/// The reply to a message that [`Query::parse`] could not read: that it is broken. Nothing when it
/// has no header, or is no query.
#[must_use]
pub fn format_error(message: &[u8]) -> Option<Vec<u8>> {
    let header = message.first_chunk::<HEADER_LENGTH>()?;
    if header[2] & 0x80 != 0 {
        return None;
    }
    let mut reply = Packet::new_reply(u16::from_be_bytes([header[0], header[1]]));
    *reply.rcode_mut() = RCODE::FormatError;
    reply.build_bytes_vec().ok()
}

/// A name and all that CNAME records among `records` make it another name for, in their order.
fn follow<'a>(name: &Name<'a>, records: &[ResourceRecord<'a>]) -> Vec<Name<'a>> {
    let mut names = vec![name.clone()];
    // Each turn adds a name or ends the search.
    while names.len() < NAMES_MAX
        && let Some(next) = records.iter().find_map(|record| match &record.rdata {
            RData::CNAME(target) if names.contains(&record.name) && !names.contains(&target.0) => {
                Some(target.0.clone())
            }
            _ => None,
        })
    {
        names.push(next);
    }
    names
}

/// The addresses of a record, hints to web browsers included.
fn addresses_in(data: &RData<'_>) -> Vec<IpAddr> {
    match data {
        RData::A(a) => vec![Ipv4Addr::from(a.address).into()],
        RData::AAAA(aaaa) => vec![Ipv6Addr::from(aaaa.address).into()],
        RData::HTTPS(service) => hints(&service.0),
        RData::SVCB(service) => hints(service),
        _ => Vec::new(),
    }
}

fn hints(service: &SVCB<'_>) -> Vec<IpAddr> {
    let params = service.iter_params();
    params
        .flat_map(|param| match param {
            SVCParam::Ipv4Hint(hints) => hints
                .iter()
                .map(|&hint| Ipv4Addr::from(hint).into())
                .collect(),
            SVCParam::Ipv6Hint(hints) => hints
                .iter()
                .map(|&hint| Ipv6Addr::from(hint).into())
                .collect(),
            _ => Vec::new(),
        })
        .collect()
}

fn printable(name: &Name<'_>) -> String {
    let mut text = String::new();
    for (number, label) in name.as_bytes().enumerate() {
        if number > 0 {
            text.push('.');
        }
        for &byte in label {
            if byte.is_ascii_graphic() && byte != b'.' && byte != b'\\' {
                text.push(byte.into());
            } else {
                text.push_str(&format!("\\{byte:03}"));
            }
        }
    }
    normal(&text)
}

/// A message with a question that the library reads, and what stood there.
#[derive(Clone, Debug)]
struct Tamed {
    bytes: Vec<u8>,
    /// Where the question's type and class lie.
    at: usize,
    kind_and_class: [u8; 4],
    reserved: u8,
}

impl Tamed {
    fn kind(&self) -> Kind {
        let [kind @ .., class_high, class_low] = self.kind_and_class;
        let kind = u16::from_be_bytes(kind);
        let internet = u16::from_be_bytes([class_high, class_low]) == u16::from(CLASS::IN);
        match TYPE::from(kind) {
            TYPE::A if internet => Kind::V4,
            TYPE::AAAA if internet => Kind::V6,
            _ => Kind::Other(kind),
        }
    }

    /// A message with the same question, with what stood there.
    fn wild(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        bytes[self.at..self.at + 4].copy_from_slice(&self.kind_and_class);
        bytes
    }
}

/// Makes the first question one for IPv4 addresses and clears the reserved bit. Nothing when there
/// is not exactly one question, or when there cannot be as many records as the header promises.
fn tame(message: &[u8]) -> Option<Tamed> {
    const RESERVED: u8 = 0x40;
    const RECORD_LENGTH_MIN: usize = 11;
    let header = message.first_chunk::<HEADER_LENGTH>()?;
    let count = |at: usize| usize::from(u16::from_be_bytes([header[at], header[at + 1]]));
    let end = question_end(message)?;
    let records = count(6) + count(8) + count(10);
    if count(4) != 1 || records * RECORD_LENGTH_MIN > message.len() - end {
        return None;
    }
    let mut bytes = message.to_vec();
    let reserved = bytes[3] & RESERVED;
    bytes[3] &= !RESERVED;
    let question = bytes.get_mut(end - 4..end)?;
    let kind_and_class = question.try_into().ok()?;
    question.copy_from_slice(&[0, 1, 0, 1]);
    Some(Tamed {
        bytes,
        at: end - 4,
        kind_and_class,
        reserved,
    })
}

/// Where the first question ends. Its name is never compressed, for nothing lies before it.
fn question_end(message: &[u8]) -> Option<usize> {
    let mut at = HEADER_LENGTH;
    loop {
        match *message.get(at)? {
            0 => break,
            length @ 1..=63 => at += 1 + usize::from(length),
            _ => return None,
        }
    }
    let end = at + 1 + 4;
    (end <= message.len()).then_some(end)
}

#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
#[cfg(test)]
mod tests;
