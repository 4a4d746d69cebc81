//! Both ends of an [`Addressed`] within this process, copying between two buffers, with one fault
//! on purpose.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use crate::transport::{
    Addressed, Completion, Failure, FailureKind, Operation, Request, Result, Span,
};

/// What goes wrong with one chunk or one atomic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// It never comes.
    Drop,
    /// It comes again in place of the one after it.
    Repeat,
    /// The byte at this index comes with one bit flipped; of an atomic, of what it brings back.
    Flip(usize),
    /// It goes to this offset instead. SEND: it changes places with the one after it.
    Misplace(u64),
    /// This many bytes more than asked for are changed behind it (not for SEND).
    Overrun(usize),
    /// Its immediate data comes with one bit flipped.
    Immediate,
}

/// A fault in the operations that one end posts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// Index of the operation, from 0.
    pub at: u64,
    /// What goes wrong.
    pub wrong: Wrong,
}

/// What travels.
#[derive(Debug, Clone)]
enum Parcel {
    Send { lane: usize, bytes: Vec<u8>, immediate: u32 },
    Write { offset: u64, bytes: Vec<u8>, lane: usize, immediate: Option<u32> },
    Ask { from: Span, to: u64, completion: Completion },
    Atomic { request: Request, flip: Option<usize>, twice: bool },
    Answer { to: u64, bytes: Vec<u8>, completion: Completion },
}

type Inbox = Arc<Mutex<VecDeque<Parcel>>>;

/// One end. Parcels are opened when its owner polls or looks at its memory.
#[derive(Debug)]
pub struct LocalAddressed {
    memory: Vec<u8>,
    lanes: usize,
    room: usize,
    inbox: Inbox,
    peer: Inbox,
    receives: Vec<VecDeque<(Span, u64)>>,
    done: VecDeque<Completion>,
    fault: Option<Fault>,
    posted: u64,
    held: Option<Held>,
}

/// A message that waits: lane, bytes, immediate.
type Held = (usize, Vec<u8>, u32);

/// Both ends, with buffers of `len` bytes, room for `room` operations and receives per lane, and
/// `fault` in what the first end posts.
pub fn pair(
    len: usize,
    lanes: usize,
    room: usize,
    fault: Option<Fault>,
) -> (LocalAddressed, LocalAddressed) {
    let boxes = (Inbox::default(), Inbox::default());
    let end = |inbox: &Inbox, peer: &Inbox, fault| LocalAddressed {
        memory: vec![0; len],
        lanes,
        room,
        inbox: Arc::clone(inbox),
        peer: Arc::clone(peer),
        receives: vec![VecDeque::new(); lanes],
        done: VecDeque::new(),
        fault,
        posted: 0,
        held: None,
    };
    (end(&boxes.0, &boxes.1, fault), end(&boxes.1, &boxes.0, None))
}

impl LocalAddressed {
    /// Opens every parcel that can be opened.
    fn open(&mut self) -> Result<()> {
        loop {
            let parcel = lock(&self.inbox).pop_front();
            match parcel {
                None => return Ok(()),
                Some(parcel) => {
                    if let Some(early) = self.take(parcel)? {
                        lock(&self.inbox).push_front(early);
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Takes a parcel in; gives it back when no receive is posted for it.
    fn take(&mut self, parcel: Parcel) -> Result<Option<Parcel>> {
        match parcel {
            Parcel::Send { lane, bytes, immediate } => {
                let Some((span, id)) = self.receives[lane].pop_front() else {
                    return Ok(Some(Parcel::Send { lane, bytes, immediate }));
                };
                if bytes.len() > span.len as usize {
                    return Err(bad(format!("a message of {} bytes is too long", bytes.len())));
                }
                self.put(span.offset, &bytes)?;
                let len = bytes.len() as u32;
                self.done.push_back(Completion { id, lane, arrival: true, len, immediate });
            }
            Parcel::Write { offset, bytes, lane, immediate } => {
                if let Some(value) = immediate {
                    let Some((_, id)) = self.receives[lane].pop_front() else {
                        return Ok(Some(Parcel::Write { offset, bytes, lane, immediate }));
                    };
                    let len = bytes.len() as u32;
                    let arrival = Completion { id, lane, arrival: true, len, immediate: value };
                    self.done.push_back(arrival);
                }
                self.put(offset, &bytes)?;
            }
            Parcel::Ask { from, to, completion } => {
                let bytes = self.get(from)?;
                lock(&self.peer).push_back(Parcel::Answer { to, bytes, completion });
            }
            Parcel::Atomic { request, flip, twice } => self.change(&request, flip, twice)?,
            Parcel::Answer { to, bytes, completion } => {
                self.put(to, &bytes)?;
                self.done.push_back(completion);
            }
        }
        Ok(None)
    }

    /// Carries out an atomic of the peer and answers with what stood there.
    fn change(&mut self, request: &Request, flip: Option<usize>, twice: bool) -> Result<()> {
        let place = Span { offset: request.remote_offset, len: 8 };
        let mut answer = Vec::new();
        for _ in 0..1 + usize::from(twice) {
            answer = self.get(place)?;
            let mut word = [0; 8];
            word.copy_from_slice(&answer);
            let old = u64::from_ne_bytes(word);
            let new = match request.operation {
                Operation::FetchAdd => old.wrapping_add(request.add_or_compare),
                _ if old == request.add_or_compare => request.swap,
                _ => old,
            };
            self.put(place.offset, &new.to_ne_bytes())?;
        }
        if let Some(byte) = flip.and_then(|index| answer.get_mut(index)) {
            *byte ^= 0x10;
        }
        let (id, lane, to) = (request.id, request.lane, request.local.offset);
        let completion = Completion { id, lane, ..Completion::default() };
        lock(&self.peer).push_back(Parcel::Answer { to, bytes: answer, completion });
        Ok(())
    }

    fn put(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        let begin = offset as usize;
        let place = self.memory.get_mut(begin..begin + bytes.len());
        place.ok_or_else(|| bad(format!("offset {offset} is outside")))?.copy_from_slice(bytes);
        Ok(())
    }

    fn get(&self, span: Span) -> Result<Vec<u8>> {
        let begin = span.offset as usize;
        let bytes = self.memory.get(begin..begin + span.len as usize);
        bytes.map(<[u8]>::to_vec).ok_or_else(|| bad(format!("{span:?} is outside")))
    }

    /// What goes wrong with the operation that is being posted.
    fn wrong(&self) -> Option<Wrong> {
        self.fault.filter(|fault| fault.at == self.posted).map(|fault| fault.wrong)
    }

    fn follows(&self, wrong: impl Fn(Wrong) -> bool) -> bool {
        self.fault.is_some_and(|fault| fault.at + 1 == self.posted && wrong(fault.wrong))
    }

    fn ship(&mut self, request: &Request, mut bytes: Vec<u8>) {
        let mut offset = request.remote_offset;
        let sends = request.operation.is_send();
        let mut immediate = if request.operation.has_immediate() { request.immediate } else { 0 };
        if self.follows(|wrong| wrong == Wrong::Repeat) {
            let (_, first, of_first) = self.held.take().unwrap_or_default();
            let len = if sends { first.len() } else { first.len().min(bytes.len()) };
            bytes = first[..len].to_vec();
            immediate = of_first;
        }
        match self.wrong() {
            Some(Wrong::Drop) => return,
            Some(Wrong::Repeat) => self.held = Some((request.lane, bytes.clone(), immediate)),
            Some(Wrong::Flip(index)) => bytes[index] ^= 0x10,
            Some(Wrong::Misplace(_)) if sends => {
                self.held = Some((request.lane, bytes, immediate));
                return;
            }
            Some(Wrong::Misplace(elsewhere)) => offset = elsewhere,
            Some(Wrong::Overrun(more)) => bytes.resize(bytes.len() + more, 0x11),
            Some(Wrong::Immediate) => immediate ^= 1 << 20,
            None => {}
        }
        let lane = request.lane;
        let mut peer = lock(&self.peer);
        match request.operation {
            Operation::Send | Operation::SendImm => {
                peer.push_back(Parcel::Send { lane, bytes, immediate });
            }
            Operation::Write | Operation::WriteImm => {
                let immediate = request.operation.has_immediate().then_some(immediate);
                peer.push_back(Parcel::Write { offset, bytes, lane, immediate });
            }
            Operation::Read | Operation::FetchAdd | Operation::CmpSwap => {}
        }
        drop(peer);
        self.release(sends);
    }

    /// After the message that one was held back for: that one.
    fn release(&mut self, sends: bool) {
        if sends
            && self.follows(|wrong| matches!(wrong, Wrong::Misplace(_)))
            && let Some((lane, bytes, immediate)) = self.held.take()
        {
            lock(&self.peer).push_back(Parcel::Send { lane, bytes, immediate });
        }
    }

    fn ask_atomic(&mut self, request: &Request, completion: Completion) -> Result<()> {
        let Request { local, remote_offset, .. } = *request;
        if local.len != 8 || !remote_offset.is_multiple_of(8) {
            return Err(bad(format!("an atomic of {} bytes at {remote_offset}", local.len)));
        }
        let mut request = *request;
        let (mut flip, mut twice) = (None, false);
        match self.wrong() {
            Some(Wrong::Drop) => {
                let nothing = Parcel::Answer { to: local.offset, bytes: Vec::new(), completion };
                lock(&self.inbox).push_back(nothing);
                return Ok(());
            }
            Some(Wrong::Flip(index)) => flip = Some(index),
            Some(Wrong::Repeat) => twice = true,
            Some(Wrong::Misplace(elsewhere)) => request.remote_offset = elsewhere,
            _ => {}
        }
        lock(&self.peer).push_back(Parcel::Atomic { request, flip, twice });
        Ok(())
    }

    fn ask(&mut self, request: &Request, completion: Completion) {
        let mut from = Span { offset: request.remote_offset, len: request.local.len };
        let mut to = request.local.offset;
        match self.wrong() {
            Some(Wrong::Drop) => from.len = 0,
            Some(Wrong::Misplace(elsewhere)) => to = elsewhere,
            _ => {}
        }
        lock(&self.peer).push_back(Parcel::Ask { from, to, completion });
    }
}

impl Addressed for LocalAddressed {
    fn lanes(&self) -> usize {
        self.lanes
    }

    fn post(&mut self, request: &Request) -> Result<bool> {
        self.open()?;
        if self.done.len() >= self.room {
            return Ok(false);
        }
        let (id, lane) = (request.id, request.lane);
        let completion = Completion { id, lane, ..Completion::default() };
        if request.operation == Operation::Read {
            self.ask(request, completion);
        } else if request.operation.is_atomic() {
            self.ask_atomic(request, completion)?;
        } else {
            let bytes = self.get(request.local)?;
            self.ship(request, bytes);
            if request.signal {
                self.done.push_back(completion);
            }
        }
        self.posted += 1;
        Ok(true)
    }

    fn post_receive(&mut self, lane: usize, local: Span, id: u64) -> Result<bool> {
        if self.receives[lane].len() >= self.room {
            return Ok(false);
        }
        self.receives[lane].push_back((local, id));
        Ok(true)
    }

    fn poll(&mut self, done: &mut [Completion]) -> Result<usize> {
        self.open()?;
        let n = self.done.len().min(done.len());
        for (place, completion) in done.iter_mut().zip(self.done.drain(..n)) {
            *place = completion;
        }
        Ok(n)
    }

    fn memory(&mut self) -> &mut [u8] {
        if let Err(failure) = self.open() {
            // The next poll meets the same parcel's successor; a broken copy shows as wrong bytes.
            debug_assert!(false, "{failure}");
        }
        &mut self.memory
    }

    fn remote_len(&self) -> u64 {
        self.memory.len() as u64
    }

    fn idle(&mut self, empty: u32) -> Result<bool> {
        if empty.is_multiple_of(64) {
            std::thread::yield_now();
        }
        Ok(false)
    }
}

fn lock(inbox: &Inbox) -> std::sync::MutexGuard<'_, VecDeque<Parcel>> {
    inbox.lock().unwrap_or_else(PoisonError::into_inner)
}

fn bad(cause: String) -> Failure {
    Failure::new(FailureKind::Internal, "copy", "local pair", cause)
}
