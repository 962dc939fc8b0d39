//! What clients have asked for: the objects are loaded first, then the leases are got, then both are sent.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::besides::{Besides, Had};
use super::{Effect, Loaded, Server, failed};
use crate::errno::Errno;
use crate::frame::{Lease, Reason, State, ToClient, Urgency, Want};
use crate::lease::{Ask, ClientId, Mode};
use crate::object::{Body, Object, ObjectId};
use crate::tree::Tree;

/// How many objects a client may want at once.
const WANTS_MAX: usize = 1024;

/// How many questions of one client may be open: more than a mount has calls that wait.
const OPEN_MAX: usize = 4096;

/// A directory with no more names than these is told with its names again when they have changed, also if only its attributes are
/// wanted.
const CHANGED_MAX: usize = 1024;

/// About how many bytes of leases or names one message has; far below the limit of a message.
const PART_BYTES: usize = 256 << 10;

/// Every question that is not answered.
#[derive(Debug, Default)]
pub(super) struct Asks {
    open: BTreeMap<(ClientId, u64), Open>,
    /// What clients have, so that it is not looked through again.
    pub(super) had: Had,
    /// What the shell was asked to load.
    loading: HashMap<ObjectId, Urgency>,
}

#[derive(Debug)]
struct Open {
    wants: Vec<Want>,
    /// What it is given besides.
    besides: Besides,
    /// What has to be loaded first.
    missing: BTreeSet<ObjectId>,
    /// Objects that would have been given besides and that cannot be loaded.
    unreadable: HashSet<ObjectId>,
    /// What is wanted and cannot be loaded, and why.
    failed: Option<(ObjectId, Errno)>,
    /// Whether it waits for its leases.
    is_queued: bool,
}

impl Server {
    pub(super) fn ask(
        &mut self,
        client: ClientId,
        request: u64,
        mut wants: Vec<Want>,
        ahead: u32,
        effects: &mut Vec<Effect>,
    ) {
        let of_client = (client, 0)..=(client, u64::MAX);
        if self.asks.open.range(of_client).count() >= OPEN_MAX {
            if let Some(link) = self.clients.link(client) {
                self.part(link, Reason::Breach, effects);
            }
            return;
        }
        wants.sort_by_key(|want| want.object);
        wants.dedup_by_key(|want| want.object);
        wants.truncate(WANTS_MAX);
        // A program that finds a directory changed looks next at what is new there.
        let listed = wants
            .iter()
            .filter(|want| want.names || want.kept.is_some());
        let besides = Besides::near(listed.map(|want| want.object).collect(), ahead);
        let open = Open::new(wants, besides);
        self.asks.open.insert((client, request), open);
        self.prepare((client, request), effects);
    }

    /// A client would take more, and no program waits.
    pub(super) fn explore(
        &mut self,
        client: ClientId,
        request: u64,
        directory: ObjectId,
        most: u32,
        effects: &mut Vec<Effect>,
    ) {
        let mut of_client = self.asks.open.range((client, 0)..=(client, u64::MAX));
        let explores = of_client.any(|(_, open)| open.besides.is_all());
        let has_lease = self.leases.mode(client, directory) >= Some(Mode::Read);
        if explores || !has_lease {
            let has_more = false;
            return self.send(client, ToClient::Explored { request, has_more }, effects);
        }
        let open = Open::new(Vec::new(), Besides::all(directory, most));
        self.asks.open.insert((client, request), open);
        self.prepare((client, request), effects);
    }

    /// Forgets what a client asked for.
    pub(super) fn forget_asks(&mut self, client: ClientId, effects: &mut Vec<Effect>) {
        let range = (client, 0)..=(client, u64::MAX);
        let open: Vec<_> = self.asks.open.range(range).map(|(key, _)| *key).collect();
        let mut moves = Vec::new();
        for key in open {
            self.asks.open.remove(&key);
            self.leases.withdraw(key.0, key.1, &mut moves);
        }
        self.carry_out(moves, effects);
    }

    pub(super) fn prepare_all(&mut self, effects: &mut Vec<Effect>) {
        let open: Vec<_> = self.asks.open.keys().copied().collect();
        for key in open {
            self.prepare(key, effects);
        }
    }

    /// Has loaded what a question needs; when all is there, gets the leases.
    fn prepare(&mut self, key: (ClientId, u64), effects: &mut Vec<Effect>) {
        if self.clients.is_in_grace() {
            return;
        }
        let Some(open) = self.asks.open.get_mut(&key) else {
            return;
        };
        if open.is_queued {
            return;
        }
        if let Some((object, errno)) = open.failed {
            // The name that led the client there may be of a directory that others have changed. Then the client is to lose that
            // first, so that it looks again.
            let mut wants = open.wants.iter();
            if !wants.any(|want| self.foreign.is_changed(want.object)) {
                self.asks.open.remove(&key);
                self.send(key.0, failed(key.1, object, errno), effects);
            }
            return;
        }
        let wanted = open.wants.iter().map(|want| want.object);
        let has = (&self.leases, &mut self.asks.had);
        let besides = open.besides.find(&self.tree, has, key.0);
        let unknown = wanted
            .chain(besides)
            .filter(|object| self.tree.get(*object).is_none() && !open.unreadable.contains(object));
        open.missing = unknown.collect();
        let missing = open.missing.clone();
        let urgency = open.urgency();
        if missing.is_empty() {
            let secret = |want: &&Want| want.names && is_secret(&self.tree, want.object);
            if let Some(secret) = open.wants.iter().find(secret) {
                let message = failed(key.1, secret.object, Errno::ACCES);
                self.asks.open.remove(&key);
                return self.send(key.0, message, effects);
            }
            open.is_queued = true;
            let wants = open.wants.iter().map(|want| (want.object, want.mode));
            let ask = Ask {
                client: key.0,
                request: key.1,
                wants: wants.collect(),
            };
            let mut moves = Vec::new();
            self.leases.ask(ask, &mut moves);
            self.carry_out(moves, effects);
        }
        for object in missing {
            self.load(object, urgency, effects);
        }
    }

    /// What was known of an object is not known any more. The questions that want it begin again, and those that would only
    /// have had it besides do without.
    pub(super) fn unprepare(&mut self, object: ObjectId, effects: &mut Vec<Effect>) {
        let (mut queued, mut again) = (Vec::new(), Vec::new());
        for (key, open) in &mut self.asks.open {
            if open.wants.iter().any(|want| want.object == object) {
                again.push(*key);
                queued.extend(std::mem::take(&mut open.is_queued).then_some(*key));
            } else {
                open.unreadable.insert(object);
            }
        }
        let mut moves = Vec::new();
        for (client, request) in queued {
            self.leases.withdraw(client, request, &mut moves);
        }
        self.carry_out(moves, effects);
        for key in again {
            self.prepare(key, effects);
        }
    }

    pub(super) fn load(&mut self, object: ObjectId, urgency: Urgency, effects: &mut Vec<Effect>) {
        match self.asks.loading.insert(object, urgency) {
            None => effects.push(Effect::Load(object, urgency)),
            Some(before) if before < urgency => effects.push(Effect::Hurry(object)),
            Some(before) => {
                self.asks.loading.insert(object, before);
            }
        }
    }

    pub(super) fn loaded(
        &mut self,
        id: ObjectId,
        outcome: Result<Loaded, Errno>,
        effects: &mut Vec<Effect>,
    ) {
        self.asks.loading.remove(&id);
        let errno = outcome.as_ref().err().copied();
        if let Ok(Loaded { mut object, parent }) = outcome
            && self.tree.get(id).is_none()
        {
            self.foreign.begin_version(&mut object.versions);
            if object.is_directory()
                && let Some(parent) = parent
            {
                self.tree.learn_parent(id, parent);
            }
            if object.attributes.links == 0 {
                self.nameless.insert(id);
            } else {
                self.nameless.remove(&id);
            }
            self.tree.learn(id, object);
        }
        if errno == Some(Errno::STALE) {
            self.note_vanished(id, effects);
        }
        for client in self.clients.loaded(id, errno.is_none()) {
            self.take_messages(client, effects);
        }
        let waits =
            |(key, open): (&(ClientId, u64), &Open)| open.missing.contains(&id).then_some(*key);
        let waiting: Vec<_> = self.asks.open.iter().filter_map(waits).collect();
        for key in waiting {
            let Some(open) = self.asks.open.get_mut(&key) else {
                continue;
            };
            open.missing.remove(&id);
            if let Some(errno) = errno {
                if open.wants.iter().any(|want| want.object == id) {
                    open.failed = Some((id, errno));
                    self.prepare(key, effects);
                    continue;
                }
                open.unreadable.insert(id);
            }
            // What is below the next level is looked for when all of this one is there.
            if open.missing.is_empty() {
                self.prepare(key, effects);
            }
        }
    }

    /// Tells a client of its leases.
    pub(super) fn grant(&mut self, ask: &Ask, effects: &mut Vec<Effect>) {
        let (client, request) = (ask.client, ask.request);
        let Some(open) = self.asks.open.remove(&(client, request)) else {
            return;
        };
        // What had no name left was dropped when the last client forgot it.
        let is_gone = |want: &&Want| self.tree.get(want.object).is_none();
        if let Some(gone) = open.wants.iter().find(is_gone) {
            let message = failed(request, gone.object, Errno::STALE);
            return self.send(client, message, effects);
        }
        let has = (&self.leases, &mut self.asks.had);
        let besides = open.besides.find(&self.tree, has, client);
        let has_more = besides.len() >= open.besides.most();
        let offered = besides.into_iter().filter_map(|object| {
            let want = Want {
                object,
                mode: Mode::Read,
                names: true,
                kept: None,
            };
            self.tree.get(object)?;
            (self.leases.offer(client, object, Mode::Read)).then_some(want)
        });
        let offered: Vec<_> = offered.collect();
        self.tell_leases(client, open.wants.iter().chain(&offered), effects);
        let answer = match open.besides.is_all() {
            true => ToClient::Explored { request, has_more },
            false => ToClient::Granted { request },
        };
        self.send(client, answer, effects);
        let wants = open.wants.iter().map(|want| want.object);
        let nameless: Vec<_> = wants.filter(|id| self.nameless.contains(id)).collect();
        if !nameless.is_empty() {
            self.send(client, ToClient::Nameless(nameless), effects);
        }
    }

    fn tell_leases<'w>(
        &mut self,
        client: ClientId,
        wants: impl Iterator<Item = &'w Want>,
        effects: &mut Vec<Effect>,
    ) {
        let mut leases = Vec::new();
        let mut bytes = 0;
        for want in wants {
            // Where nobody else relies on it, the client may as well change it.
            self.leases.offer(client, want.object, Mode::Write);
            let Some(object) = self.tree.get(want.object) else {
                continue;
            };
            let is_kept = |part: fn(&crate::object::Versions) -> u64| {
                want.kept
                    .is_some_and(|kept| part(&kept) == part(&object.versions))
            };
            let is_kept_whole = is_kept(|versions| versions.content);
            let has_changed = want.kept.is_some() && !is_kept_whole;
            let names = match &object.body {
                Body::Names(Some(all)) => want.names || (has_changed && all.len() <= CHANGED_MAX),
                _ => false,
            };
            if names && !is_kept_whole {
                self.send_names(client, want.object, object, effects);
            }
            let state = (want.kept != Some(object.versions)).then(|| State::of(object));
            bytes += state.as_ref().map_or(8, State::bytes);
            leases.push(Lease {
                object: want.object,
                mode: self.leases.mode(client, want.object).unwrap_or(want.mode),
                names,
                state,
            });
            if bytes > PART_BYTES {
                self.send(
                    client,
                    ToClient::Leases(std::mem::take(&mut leases)),
                    effects,
                );
                bytes = 0;
            }
        }
        self.send(client, ToClient::Leases(leases), effects);
    }

    fn send_names(
        &self,
        client: ClientId,
        directory: ObjectId,
        object: &Object,
        effects: &mut Vec<Effect>,
    ) {
        let Body::Names(Some(all)) = &object.body else {
            return;
        };
        let mut names = Vec::new();
        let mut bytes = 0;
        for (name, object) in all {
            bytes += name.as_bytes().len() + 16;
            names.push((name.clone(), *object));
            if bytes > PART_BYTES {
                let names = std::mem::take(&mut names);
                self.send(client, ToClient::Names { directory, names }, effects);
                bytes = 0;
            }
        }
        self.send(client, ToClient::Names { directory, names }, effects);
    }
}

/// Whether it is a directory that the server may not list.
fn is_secret(tree: &Tree, object: ObjectId) -> bool {
    let body = tree.get(object).map(|known| &known.body);
    matches!(body, Some(Body::Names(None)))
}

impl Open {
    fn new(wants: Vec<Want>, besides: Besides) -> Self {
        Self {
            wants,
            besides,
            missing: BTreeSet::new(),
            unreadable: HashSet::new(),
            failed: None,
            is_queued: false,
        }
    }

    fn urgency(&self) -> Urgency {
        match self.besides.is_all() {
            true => Urgency::Ahead,
            false => Urgency::Awaited,
        }
    }
}

impl State {
    fn of(object: &Object) -> Self {
        let target = match &object.body {
            Body::Target(target) => Some(target.clone()),
            _ => None,
        };
        Self {
            attributes: object.attributes,
            versions: object.versions,
            extended: object.extended.clone(),
            target,
        }
    }

    /// About how long it is in a message.
    fn bytes(&self) -> usize {
        let extended = self.extended.iter();
        let extended: usize = extended
            .map(|(name, value)| name.as_bytes().len() + value.len() + 4)
            .sum();
        100 + extended + self.target.as_ref().map_or(0, Vec::len)
    }
}
