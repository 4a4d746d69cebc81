//! Ranks that a launcher started find rank 0, and each other's secret.
//!
//! Rank 0 listens and the others connect to it, each proving the token and naming its rank. Where
//! token and address are known (given, or told by the launcher) nothing is written. Otherwise
//! rank 0 writes both into a file that only its user can read, in a directory that all hosts share.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::frame::{CONTROL_LIMIT, FrameReader};
use super::token::{Answer, Purpose, Token, TokenError, challenge, prove};
use super::world::World;
use super::{HostSpec, Interrupt, host_spec};
use crate::session::host_spec::Way;

/// How long a stranger may take to prove itself, and a rank to say its host's name.
const PROOF: Duration = Duration::from_secs(5);

/// How long one attempt to connect may take.
const DIAL: Duration = Duration::from_secs(3);

/// Time between two attempts.
const AGAIN: Duration = Duration::from_millis(100);

/// Longest host name.
const NAME_LIMIT: usize = 256;

/// What rank 0 says once all have joined.
const COMPLETE: [u8; 1] = [b'!'];

/// A rank's connection to rank 0.
#[derive(Debug)]
pub struct Guest {
    /// The connection.
    pub stream: TcpStream,
    /// Reads from it; its host's name has been read.
    pub reader: FrameReader,
}

/// Connections of ranks that have joined, until a session takes them.
pub type Guests = Arc<Mutex<BTreeMap<u16, Guest>>>;

/// How ranks meet.
#[derive(Debug, Clone)]
pub struct Meeting {
    world: World,
    token: Option<Token>,
    /// Where the file is, unless address and token are known without.
    file: Option<PathBuf>,
    patience: Duration,
}

/// What rank 0 writes for the others.
#[derive(Debug, Serialize, Deserialize)]
struct Invitation {
    addresses: Vec<IpAddr>,
    port: u16,
    /// None where all ranks were given one.
    token: Option<String>,
}

impl Meeting {
    /// Of the ranks of `world`. A token that all of them were given saves the file where the
    /// launcher tells the address of rank 0; else the file is in `directory`.
    ///
    /// # Errors
    /// A sentence when neither is there.
    pub fn new(
        world: &World,
        token: Option<Token>,
        directory: Option<PathBuf>,
        patience: Duration,
    ) -> Result<Meeting, String> {
        let direct = token.is_some() && world.root.is_some();
        let file = match directory {
            _ if direct => None,
            Some(directory) => Some(directory.join(format!("join-{}", world.job))),
            None => {
                return Err("ranks need a place to meet: set FABBENCH_RENDEZVOUS to a directory \
                            that all hosts share, or FABBENCH_TOKEN, MASTER_ADDR and MASTER_PORT \
                            alike for all ranks"
                    .to_owned());
            }
        };
        Ok(Meeting { world: world.clone(), token, file, patience })
    }

    /// As rank 0: all ranks as hosts, in their order, with the connections of the others.
    ///
    /// # Errors
    /// A sentence: the ranks that did not come, or why nobody can.
    pub fn gather(
        &self,
        own_name: &str,
        addresses: &[IpAddr],
        interrupt: &Interrupt,
    ) -> Result<(Vec<HostSpec>, Guests), String> {
        let listener = self.listen()?;
        let (token, made) = self.secret()?;
        let _file = self.invite(&listener, addresses, made)?;
        let (sender, receiver) = channel();
        let door = Door { token, size: self.world.size, sender };
        let deadline = Instant::now() + self.patience;
        let mut guests: BTreeMap<u16, (String, Guest)> = BTreeMap::new();
        while guests.len() + 1 < usize::from(self.world.size) {
            while let Ok((rank, name, guest)) = receiver.try_recv() {
                if guests.contains_key(&rank) {
                    return Err(format!("rank {rank} joined twice: end processes of earlier runs"));
                }
                guests.insert(rank, (name, guest));
            }
            match listener.accept() {
                Ok((stream, _)) => door.receive(stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if interrupt.is_set() {
                        return Err("interrupted".to_owned());
                    }
                    if Instant::now() > deadline {
                        return Err(self.missing(&guests));
                    }
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(error) => return Err(format!("accept: {error}")),
            }
        }
        for (_, guest) in guests.values_mut() {
            // Who is gone is seen when its session begins.
            let _ = guest.stream.write_all(&COMPLETE);
        }
        Ok(hosts(own_name, guests))
    }

    /// The given token, else a new one and its text for the others.
    fn secret(&self) -> Result<(Token, Option<String>), String> {
        if let Some(token) = &self.token {
            return Ok((token.clone(), None));
        }
        let random = Token::random().map_err(|error| format!("random bytes: {error}"))?;
        Ok((Token::new(random.as_bytes())?, Some(random)))
    }

    /// As another rank: a connection to rank 0, proved.
    ///
    /// # Errors
    /// A sentence with the next step.
    pub fn join(&self, own_name: &str) -> Result<TcpStream, String> {
        let deadline = Instant::now() + self.patience;
        let rank = self.world.rank;
        loop {
            let why = match self.attempt(own_name) {
                Ok(stream) => return self.wait_for_all(stream),
                Err(why) => why,
            };
            if Instant::now() > deadline {
                let waited = self.patience.as_secs();
                return Err(format!("rank {rank}: rank 0 was not found in {waited} s: {why}"));
            }
            std::thread::sleep(AGAIN);
        }
    }

    /// Rank 0 begins once all have joined.
    fn wait_for_all(&self, mut stream: TcpStream) -> Result<TcpStream, String> {
        let mut byte = [0];
        let patience = Some(self.patience + PROOF);
        let waited = stream.set_read_timeout(patience).and_then(|()| stream.read_exact(&mut byte));
        waited.and_then(|()| stream.set_read_timeout(None)).map_err(|error| {
            let rank = self.world.rank;
            format!("rank {rank}: rank 0 ended before it began ({error}): it says why")
        })?;
        Ok(stream)
    }

    /// Any address where ranks come from other hosts, else loopback; a known port where no file
    /// tells it.
    fn listen(&self) -> Result<TcpListener, String> {
        let port = match (&self.file, &self.world.root) {
            (None, Some((_, port))) => *port,
            _ => 0,
        };
        let bound = if self.world.together {
            TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        } else {
            TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))
                .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)))
        };
        let listener = bound.map_err(|error| {
            format!("listen for ranks on port {port}: {error}: set MASTER_PORT to a free port")
        })?;
        listener.set_nonblocking(true).map_err(|error| format!("listen: {error}"))?;
        Ok(listener)
    }

    /// Writes the invitation, where there is to be one.
    fn invite(
        &self,
        listener: &TcpListener,
        addresses: &[IpAddr],
        token: Option<String>,
    ) -> Result<Option<Written>, String> {
        let Some(path) = &self.file else { return Ok(None) };
        let port = listener.local_addr().map_err(|error| format!("listen: {error}"))?.port();
        let addresses = match self.world.together {
            true => vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
            false => addresses.to_vec(),
        };
        let invitation = Invitation { addresses, port, token };
        write(path, &invitation).map(Some).map_err(|error| {
            format!(
                "write {}: {error}: set FABBENCH_RENDEZVOUS to a directory that all hosts share",
                path.display()
            )
        })
    }

    fn attempt(&self, own_name: &str) -> Result<TcpStream, String> {
        let (addresses, token) = match (&self.file, &self.world.root, &self.token) {
            (Some(path), ..) => {
                let invitation = read(path)?;
                let at = |address: &IpAddr| SocketAddr::new(*address, invitation.port);
                let addresses = invitation.addresses.iter().map(at).collect::<Vec<_>>();
                let told = invitation.token.unwrap_or_default();
                let given = || Token::new(told.as_bytes());
                (addresses, self.token.clone().map_or_else(given, Ok)?)
            }
            (None, Some((host, port)), Some(token)) => {
                let found = (host.as_str(), *port).to_socket_addrs();
                (found.map_err(|e| format!("{host}: {e}"))?.collect(), token.clone())
            }
            _ => return Err("neither a file nor an address is known".to_owned()),
        };
        let mut stream = dial(&addresses)?;
        let purpose = Purpose::Join { rank: self.world.rank, size: self.world.size };
        let proved = prove(stream, &token, purpose, Instant::now() + PROOF);
        stream = proved.map_err(|error| match error {
            TokenError::WrongToken => "rank 0 does not know this token: give all ranks the same \
                                       FABBENCH_TOKEN"
                .to_owned(),
            other => format!("what listens there is not rank 0 of this job: {other}"),
        })?;
        let line: String = own_name.chars().filter(|c| !c.is_control()).take(100).collect();
        stream.write_all(format!("{line}\n").as_bytes()).map_err(|error| error.to_string())?;
        Ok(stream)
    }

    fn missing(&self, guests: &BTreeMap<u16, (String, Guest)>) -> String {
        let gone: Vec<String> = (1..self.world.size)
            .filter(|rank| !guests.contains_key(rank))
            .map(|rank| rank.to_string())
            .collect();
        let word = if gone.len() == 1 { "rank" } else { "ranks" };
        let first: Vec<&str> = gone.iter().take(8).map(String::as_str).collect();
        let how = match &self.file {
            Some(path) => format!(
                "they read {}: does every host see it? Else set FABBENCH_RENDEZVOUS to a \
                 directory that all hosts share",
                path.display()
            ),
            None => "can they reach MASTER_ADDR, and do all have the same token?".to_owned(),
        };
        format!(
            "{word} {} of {} did not join within {} s: {how}",
            first.join(", "),
            self.world.size,
            self.patience.as_secs()
        )
    }
}

/// Admits ranks, each in a thread of its own, so that a stranger keeps nobody waiting.
struct Door {
    token: Token,
    size: u16,
    sender: Sender<(u16, String, Guest)>,
}

impl Door {
    fn receive(&self, stream: TcpStream) {
        let (token, size, sender) = (self.token.clone(), self.size, self.sender.clone());
        std::thread::spawn(move || {
            // Who proves nothing is dropped; who is missing in the end is named.
            if let Some(came) = admit(stream, &token, size) {
                let _ = sender.send(came);
            }
        });
    }
}

fn admit(stream: TcpStream, token: &Token, size: u16) -> Option<(u16, String, Guest)> {
    stream.set_nonblocking(false).ok()?;
    let deadline = Instant::now() + PROOF;
    let fits = |purpose| match purpose {
        Purpose::Join { rank, size: theirs } => {
            (theirs == size && (1..size).contains(&rank)).then_some(Answer::Welcome)
        }
        _ => None,
    };
    let (stream, purpose) = challenge(stream, token, deadline, fits).ok()?;
    let Purpose::Join { rank, .. } = purpose else { return None };
    let mut reader = FrameReader::new(stream.try_clone().ok()?, CONTROL_LIMIT).ok()?;
    let name = reader.line(NAME_LIMIT, deadline).ok()?;
    Some((rank, name.trim().to_owned(), Guest { stream, reader }))
}

/// Rank 0 as a child of this process, the others where they are.
fn hosts(own_name: &str, guests: BTreeMap<u16, (String, Guest)>) -> (Vec<HostSpec>, Guests) {
    let mut specs =
        vec![HostSpec { name: own_name.to_owned(), way: Way::Local, data_address: None }];
    let mut connections = BTreeMap::new();
    for (rank, (name, guest)) in guests {
        let name = if name.is_empty() { format!("rank-{rank}") } else { name };
        specs.push(HostSpec { name, way: Way::Joined { rank }, data_address: None });
        connections.insert(rank, guest);
    }
    (host_spec::with_own_names(specs), Arc::new(Mutex::new(connections)))
}

fn dial(addresses: &[SocketAddr]) -> Result<TcpStream, String> {
    let mut last = "it has no address".to_owned();
    for address in addresses {
        match TcpStream::connect_timeout(address, DIAL) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = format!("{address}: {error}"),
        }
    }
    Err(last)
}

/// The file while it is there: it goes with this.
#[derive(Debug)]
struct Written(PathBuf);

impl Drop for Written {
    fn drop(&mut self) {
        // The next run of this job replaces it.
        let _ = fs::remove_file(&self.0);
    }
}

/// Whole or not at all: written under another name, readable by its owner alone, then renamed.
fn write(path: &Path, invitation: &Invitation) -> io::Result<Written> {
    if let Some(directory) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    let fresh = path.with_extension(format!("{}.new", std::process::id()));
    let text = serde_json::to_vec(invitation).map_err(io::Error::other)?;
    let _ = fs::remove_file(&fresh);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
    file.write_all(&text).and_then(|()| file.sync_all())?;
    fs::rename(&fresh, path)?;
    Ok(Written(path.to_owned()))
}

/// What rank 0 wrote; somebody else's word is not taken for it.
fn read(path: &Path) -> Result<Invitation, String> {
    let shown = path.display();
    let file = fs::File::open(path).map_err(|error| {
        format!(
            "{shown}: {error}: rank 0 writes it; does this host see the same directory? Else \
                 set FABBENCH_RENDEZVOUS to one that all hosts share"
        )
    })?;
    let owner = file.metadata().map_err(|error| format!("{shown}: {error}"))?;
    if owner.uid() != rustix::process::geteuid().as_raw() || owner.mode() & 0o022 != 0 {
        return Err(format!("{shown}: another user can write it: remove it"));
    }
    serde_json::from_reader(file).map_err(|error| format!("{shown}: {error}: remove it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world(rank: u16, size: u16, root: Option<u16>) -> World {
        World {
            rank,
            size,
            launcher: "mpirun",
            job: "test".into(),
            together: true,
            root: root.map(|port| ("127.0.0.1".into(), port)),
        }
    }

    fn meeting(rank: u16, size: u16, directory: &Path, seconds: u64) -> Meeting {
        let directory = Some(directory.to_owned());
        let patience = Duration::from_secs(seconds);
        Meeting::new(&world(rank, size, None), None, directory, patience).unwrap()
    }

    fn gathered(meeting: &Meeting) -> Result<(Vec<HostSpec>, Guests), String> {
        meeting.gather("node-a", &[], &Interrupt::default())
    }

    #[test]
    fn ranks_meet_by_a_file_that_nobody_else_reads_and_that_goes() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("meet");
        let joined: Vec<_> = [2, 1]
            .map(|rank| {
                let meeting = meeting(rank, 3, &directory, 20);
                std::thread::spawn(move || meeting.join("node-b"))
            })
            .into();
        let (hosts, guests) = gathered(&meeting(0, 3, &directory, 20)).unwrap();
        let names: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
        assert_eq!(names, ["node-a", "node-b", "node-b#2"]);
        assert_eq!(hosts[2].way, Way::Joined { rank: 2 });
        assert_eq!(guests.lock().unwrap().keys().copied().collect::<Vec<_>>(), [1, 2]);
        for one in joined {
            one.join().unwrap().unwrap();
        }
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
        assert_eq!(fs::metadata(&directory).unwrap().mode() & 0o777, 0o700);
        let written = Invitation { addresses: vec![], port: 1, token: Some("x".repeat(32)) };
        let file = write(&directory.join("join-x"), &written).unwrap();
        assert_eq!(fs::metadata(&file.0).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn who_does_not_come_is_named_and_who_waits_is_told_where() {
        let place = tempfile::tempdir().unwrap();
        let why = gathered(&meeting(0, 3, place.path(), 0)).unwrap_err();
        assert!(why.starts_with("ranks 1, 2 of 3 did not join within 0 s"), "{why}");
        let why = meeting(1, 3, place.path(), 0).join("node-b").unwrap_err();
        assert!(why.contains("join-test") && why.contains("FABBENCH_RENDEZVOUS"), "{why}");
    }

    #[test]
    fn a_given_token_needs_no_file_and_another_one_is_not_admitted() {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let token = |text: &str| Some(Token::new(text.repeat(8).as_bytes()).unwrap());
        let with = |rank, words: &str, seconds| {
            let patience = Duration::from_secs(seconds);
            Meeting::new(&world(rank, 2, Some(port)), token(words), None, patience).unwrap()
        };
        let stranger = with(1, "wrong", 0);
        let member = with(1, "right", 20);
        let others = std::thread::spawn(move || {
            // Wait until somebody listens.
            while TcpStream::connect(("127.0.0.1", port)).is_err() {
                std::thread::sleep(AGAIN);
            }
            (stranger.join("x").unwrap_err(), member.join("node-b"))
        });
        let (hosts, _guests) = gathered(&with(0, "right", 20)).unwrap();
        assert_eq!(hosts.len(), 2);
        let (refused, joined) = others.join().unwrap();
        assert!(refused.contains("give all ranks the same FABBENCH_TOKEN"), "{refused}");
        joined.unwrap();
    }

    #[test]
    fn a_file_that_others_can_write_is_not_believed() {
        use std::os::unix::fs::PermissionsExt;
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("join-test");
        fs::write(&path, "{}").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(read(&path).unwrap_err().contains("another user can write it"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(read(&path).unwrap_err().contains("remove it"));
    }

    #[test]
    fn without_any_place_the_next_step_is_told() {
        let why = Meeting::new(&world(0, 2, None), None, None, PROOF).unwrap_err();
        assert!(why.contains("FABBENCH_RENDEZVOUS") && why.contains("MASTER_ADDR"), "{why}");
    }
}
