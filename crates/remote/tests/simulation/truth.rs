//! The oracle: one tree, and one log of what was done to it.

use std::collections::{BTreeMap, HashMap};

use surmise_lower::{FileKind, Timestamp};
use surmise_remote::client::{Intent, Request, Response};
use surmise_remote::errno::Errno;
use surmise_remote::frame::Space;
use surmise_remote::object::{Attributes, Body, Name, Names, Object, ObjectId, Versions};
use surmise_remote::operation::{Change, Operation, Place};
use surmise_remote::tree::{Limits, Refusal, Tree};

/// How many bytes each file has at first.
const FIRST_BYTES: u8 = 45;

/// What is there before anything is done, and its root.
pub fn first_copy() -> (Copy, ObjectId) {
    let root = ObjectId::found(2).expect("a number");
    let attributes = |kind, links| Attributes {
        kind,
        permissions: 0o755,
        links,
        owner: 0,
        group: 0,
        size: 0,
        device: 0,
        accessed: Timestamp::default(),
        modified: Timestamp::default(),
        changed: Timestamp::default(),
    };
    let mut tree = Tree::whole(Limits::default());
    let mut names = Names::new();
    let mut data = HashMap::new();
    for (number, name) in [(3, "a"), (4, "b"), (5, "c")] {
        let object = ObjectId::found(number).expect("a number");
        let (kind, links) = if number == 3 {
            (FileKind::Directory, 2)
        } else {
            (FileKind::Regular, 1)
        };
        let mut known = Object::new(attributes(kind, links), Versions::default());
        if number > 3 {
            let bytes: Vec<u8> = (0..FIRST_BYTES).collect();
            known.attributes.size = bytes.len() as u64;
            data.insert(object, bytes);
        }
        tree.learn(object, known);
        if number == 3 {
            tree.learn_names(object, Names::new()).expect("a directory");
            tree.learn_parent(object, root);
        }
        names.insert(name.as_bytes().try_into().expect("a name"), object);
    }
    let mut directory = attributes(FileKind::Directory, 3);
    directory.permissions = 0o2755;
    tree.learn(root, Object::new(directory, Versions::default()));
    tree.learn_names(root, names).expect("a directory");
    (Copy { tree, data }, root)
}

/// What one copy is after all that was done to it.
#[derive(Clone)]
pub struct Copy {
    pub tree: Tree,
    pub data: HashMap<ObjectId, Vec<u8>>,
}

impl Copy {
    pub fn apply(&mut self, operation: &Operation) -> Result<(), Errno> {
        self.tree.apply(operation).map_err(errno)?;
        match &operation.change {
            Change::Write {
                object,
                offset,
                data,
                ..
            } => {
                let bytes = self.data.entry(*object).or_default();
                let offset = usize::try_from(*offset).expect("small");
                if data.is_empty() {
                    return Ok(());
                }
                if bytes.len() < offset + data.len() {
                    bytes.resize(offset + data.len(), 0);
                }
                bytes[offset..offset + data.len()].copy_from_slice(data);
            }
            Change::Resize { object, size, .. } => {
                let size = usize::try_from(*size).expect("small");
                self.data.entry(*object).or_default().resize(size, 0);
            }
            _ => {}
        }
        Ok(())
    }

    pub fn bytes(&self, object: ObjectId, offset: u64, length: u32) -> Vec<u8> {
        let bytes = self.data.get(&object).map_or(&[][..], |bytes| bytes);
        let start = usize::try_from(offset).expect("small").min(bytes.len());
        let end = (start + length as usize).min(bytes.len());
        bytes[start..end].to_vec()
    }

    fn is_so(&self, (object, attributes): (ObjectId, Attributes)) -> bool {
        let known = self.tree.get(object);
        known.is_some_and(|known| known.attributes == attributes)
    }

    fn led(&self, place: &Place) -> Result<Option<ObjectId>, Errno> {
        let names = self.tree.names(place.parent).map_err(errno)?;
        Ok(names.get(&place.name).copied())
    }

    /// The operation that a change comes to, if it gets that far.
    pub fn resolve(&self, intent: &Intent, made: Option<ObjectId>) -> Result<Change, Errno> {
        Ok(match intent.clone() {
            Intent::Create { place, new } => Change::Create {
                // Where it fails, any id will do.
                object: made.unwrap_or(ObjectId::found(u64::MAX >> 1).expect("a number")),
                place,
                new,
            },
            Intent::Link { object, place } => Change::Link { object, place },
            Intent::Remove { place, directory } => Change::Remove {
                object: self.led(&place)?.ok_or(Errno::NOENT)?,
                place,
                directory,
            },
            Intent::Rename {
                from,
                to,
                no_replace,
                exchange,
            } => self.resolve_rename(from, to, no_replace, exchange)?,
            Intent::SetAttributes { object, set } => Change::SetAttributes { object, set },
            Intent::Resize {
                object,
                size,
                strip,
            } => Change::Resize {
                object,
                size,
                strip,
            },
            Intent::Write {
                object,
                offset,
                data,
                strip,
            } => Change::Write {
                object,
                offset: match offset {
                    Some(offset) => offset,
                    None => self.tree.get(object).ok_or(Errno::STALE)?.attributes.size,
                },
                data,
                strip,
            },
            Intent::SetExtended {
                object,
                name,
                value,
                create,
                replace,
            } => {
                let known = self.tree.get(object).ok_or(Errno::STALE)?;
                match known.extended.contains_key(&name) {
                    true if create => return Err(Errno::EXIST),
                    false if replace => return Err(Errno::NODATA),
                    _ => {}
                }
                Change::SetExtended {
                    object,
                    name,
                    value,
                }
            }
        })
    }

    fn resolve_rename(
        &self,
        from: Place,
        to: Place,
        no_replace: bool,
        exchange: bool,
    ) -> Result<Change, Errno> {
        let (led, replaced) = (self.led(&from)?, self.led(&to)?);
        let object = led.ok_or(Errno::NOENT)?;
        if no_replace && replaced.is_some() {
            return Err(Errno::EXIST);
        }
        if exchange && replaced.is_none() {
            return Err(Errno::NOENT);
        }
        Ok(Change::Rename {
            from,
            object,
            to,
            replaced,
            exchange,
        })
    }

    /// What a call that changes nothing is answered.
    pub fn answer(&self, request: &Request) -> Result<Response, Errno> {
        let known = |object: &ObjectId| self.tree.get(*object).ok_or(Errno::STALE);
        Ok(match request {
            Request::Lookup(parent, name) => {
                let led = self.tree.names(*parent).map_err(errno)?.get(name);
                let entry = led.map(|object| {
                    let known = self.tree.get(*object).expect("names lead to objects");
                    (*object, known.attributes)
                });
                Response::Entry(entry)
            }
            Request::Attributes(object) => Response::Object(*object, known(object)?.attributes),
            Request::Names(directory) => {
                Response::Names(self.tree.names(*directory).map_err(errno)?.clone())
            }
            Request::Target(object) => match &known(object)?.body {
                Body::Target(target) => Response::Target(target.clone()),
                _ => return Err(Errno::INVAL),
            },
            Request::Extended(object) => Response::Extended(known(object)?.extended.clone()),
            Request::Read {
                object,
                offset,
                length,
            } => {
                if known(object)?.attributes.kind != FileKind::Regular {
                    return Err(Errno::INVAL);
                }
                let length = self.bytes(*object, *offset, *length).len();
                Response::Stored(u32::try_from(length).expect("small"))
            }
            Request::Space => Response::Space(Space::default()),
            Request::Sync(_) => Response::Done,
            Request::Change(_) | Request::Lock(..) => unreachable!("a change"),
        })
    }

    /// All that programs can find from the root.
    pub fn picture(&self, root: ObjectId) -> BTreeMap<Vec<Name>, String> {
        let mut picture = BTreeMap::new();
        let mut at = vec![(Vec::new(), root)];
        while let Some((path, object)) = at.pop() {
            let known = self.tree.get(object).expect("names lead to objects");
            let body = match &known.body {
                Body::Data => format!(
                    "{:?}",
                    self.data.get(&object).filter(|data| !data.is_empty())
                ),
                Body::Names(_) => String::new(),
                other => format!("{other:?}"),
            };
            let text = format!("{:?} {:?} {body}", known.attributes, known.extended);
            if let Ok(names) = self.tree.names(object) {
                for (name, below) in names {
                    let path: Vec<_> = path.iter().chain([name]).cloned().collect();
                    at.push((path, *below));
                }
            }
            picture.insert(path, text);
        }
        picture
    }
}

fn errno(refusal: Refusal) -> Errno {
    match refusal {
        Refusal::Errno(errno) => errno,
        _ => Errno::STALE,
    }
}

/// Stands for all who change the directory without a client.
pub const OTHERS: u64 = u64::MAX;

/// What was done, by whom, in the order in which it was done.
pub struct Truth {
    first: Copy,
    /// The session of the client that did it, and which of its changes it is.
    log: Vec<(u64, Operation)>,
    pub now: Copy,
    /// The same without the last change by others, while clients may still go by that.
    without: Option<Copy>,
    /// How many changes of clients could not be made, since others had made theirs.
    pub collisions: u64,
}

impl Truth {
    pub fn new(first: Copy) -> Self {
        Self {
            now: first.clone(),
            first,
            log: Vec::new(),
            without: None,
            collisions: 0,
        }
    }

    /// Whether this holds of the copy, or of the copy that clients may still go by.
    pub fn agrees(&self, holds: impl Fn(&Copy) -> bool) -> bool {
        holds(&self.now) || self.without.as_ref().is_some_and(holds)
    }

    /// Whether a client can have got this answer to a call that changes nothing. While clients may go by one or the other copy,
    /// a name can be of the one, and the attributes of the object that it leads to of the other.
    pub fn is_answer(&self, request: &Request, answer: &Result<Response, Errno>) -> bool {
        let is_so = |wanted: Result<Response, Errno>| {
            self.agrees(|copy| match (copy.answer(request), &wanted) {
                (Ok(Response::Entry(Some((led, _)))), Ok(Response::Entry(Some((object, _))))) => {
                    led == *object
                }
                (answer, wanted) => answer == *wanted,
            })
        };
        let is_known = match answer {
            Ok(Response::Entry(Some(found))) => self.agrees(|copy| copy.is_so(*found)),
            _ => true,
        };
        is_known && is_so(answer.clone())
    }

    /// Whether a client can have read these bytes. While clients may go by one or the other copy, some can be of the one and
    /// some of the other.
    pub fn has_bytes(&self, object: ObjectId, offset: u64, length: u32, bytes: &[u8]) -> bool {
        let now = self.now.bytes(object, offset, length);
        let without = self.without.as_ref();
        let before = without.map(|copy| copy.bytes(object, offset, length));
        let is_right = |(index, byte): (usize, &u8)| {
            let is_of = |all: &Vec<u8>| all.get(index) == Some(byte);
            is_of(&now) || before.as_ref().is_some_and(is_of)
        };
        let mut lengths = [Some(now.len()), before.as_ref().map(Vec::len)].into_iter();
        lengths.any(|length| length == Some(bytes.len())) && bytes.iter().enumerate().all(is_right)
    }

    /// Others make a change, if that is possible.
    pub fn done_by_others(&mut self, operation: Operation) -> Result<(), Errno> {
        let before = self.now.clone();
        self.now.apply(&operation)?;
        self.log.push((OTHERS, operation));
        self.without = Some(before);
        Ok(())
    }

    /// All clients go by what others have done.
    pub fn is_seen(&mut self) {
        self.without = None;
    }

    /// What the change of a client comes to, which is then done. The client has said what became of the object.
    pub fn change(
        &mut self,
        session: u64,
        intent: &Intent,
        made: Option<ObjectId>,
        at: Timestamp,
        said: Option<(ObjectId, Attributes)>,
    ) -> Result<(), Errno> {
        let operation = self.meant(intent, made, at, said)?;
        self.done(session, operation)
    }

    /// The operation that a client means, by the copy that it goes by.
    fn meant(
        &self,
        intent: &Intent,
        made: Option<ObjectId>,
        at: Timestamp,
        said: Option<(ObjectId, Attributes)>,
    ) -> Result<Operation, Errno> {
        let mut failed = Errno::IO;
        for copy in [Some(&self.now), self.without.as_ref()]
            .into_iter()
            .flatten()
        {
            let mut trial = copy.clone();
            let done = trial.resolve(intent, made).and_then(|change| {
                let operation = Operation { at, change };
                trial.apply(&operation).map(|()| operation)
            });
            match done {
                Ok(operation) if said.is_none_or(|said| trial.is_so(said)) => {
                    return Ok(operation);
                }
                Ok(_) => {}
                Err(errno) => failed = errno,
            }
        }
        Err(failed)
    }

    pub fn done(&mut self, session: u64, operation: Operation) -> Result<(), Errno> {
        match self.now.apply(&operation) {
            Err(errno) if self.without.is_none() => return Err(errno),
            Err(_) => self.collisions += 1,
            Ok(()) => {}
        }
        if let Some(without) = &mut self.without {
            // A client that has given its leases back goes by the other copy.
            let _ = without.apply(&operation);
        }
        self.log.push((session, operation));
        Ok(())
    }

    /// How many changes a client has made.
    pub fn count(&self, session: u64) -> usize {
        self.log.iter().filter(|(one, _)| *one == session).count()
    }

    /// A client's changes, in their order.
    pub fn done_by(&self, session: u64) -> Vec<Operation> {
        let log = self.log.iter().filter(|(one, _)| *one == session);
        log.map(|(_, operation)| operation.clone()).collect()
    }

    /// Of a client's changes only the first ones stay. Returns how many do not.
    pub fn keep(&mut self, session: u64, first: usize) -> usize {
        let before = self.log.len();
        let mut seen = 0;
        self.log.retain(|(one, _)| {
            seen += usize::from(*one == session);
            *one != session || seen <= first
        });
        let lost = before - self.log.len();
        if lost > 0 {
            let others = self.log.iter().rposition(|(session, _)| *session == OTHERS);
            self.now = self.replayed(None);
            self.without = self.without.take().map(|_| self.replayed(others));
        }
        lost
    }

    fn replayed(&self, without: Option<usize>) -> Copy {
        let mut copy = self.first.clone();
        let mut others = false;
        for (index, (session, operation)) in self.log.iter().enumerate() {
            others |= *session == OTHERS;
            if Some(index) != without
                && let Err(errno) = copy.apply(operation)
            {
                assert!(others, "{operation:?} rests on what was lost: {errno}");
            }
        }
        copy
    }
}
