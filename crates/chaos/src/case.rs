//! A cluster described in a few words: its size, release and shape, the faults in it and when they occur, and the options of the run.
//!
//! A case fits on one line, which contains everything needed to reproduce it:
//! `control-planes=3 workers=1 talos=1.13.0 shape=dns-off faults=power-off:cp-2,kubelet-crash:worker-1@2-5 options=strict shuffle=7`

use std::fmt;
use std::str::FromStr;

use anyhow::{Context as _, bail};

use crate::faults::{self, Fault, On};
use crate::options::{self, Choice};
use crate::random::Random;
use crate::shapes::{self, Shape};

/// A machine under the name that its case uses: `cp-1`, `worker-2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Machine {
    pub(crate) controls: bool,
    /// Number of the machine, counted from 1.
    pub(crate) number: usize,
}

/// Software versions of a cluster.
#[derive(Debug)]
pub(crate) struct Release {
    pub(crate) talos: &'static str,
    pub(crate) kubernetes: &'static str,
    pub(crate) etcd: &'static str,
    /// The least privileged role that can read everything the program reads.
    pub(crate) role: &'static str,
}

/// Releases to choose from; the first one is the default.
pub(crate) static RELEASES: &[Release] = &[
    Release { talos: "1.13.0", kubernetes: "1.35.4", etcd: "3.6.9", role: "os:reader" },
    Release { talos: "1.14.0", kubernetes: "1.36.0", etcd: "3.6.9", role: "os:reader" },
    Release { talos: "1.12.6", kubernetes: "1.34.4", etcd: "3.6.9", role: "os:reader" },
    Release { talos: "1.10.4", kubernetes: "1.33.2", etcd: "3.5.21", role: "os:reader" },
    Release { talos: "1.8.4", kubernetes: "1.31.5", etcd: "3.5.16", role: "os:operator" },
    Release { talos: "1.5.5", kubernetes: "1.28.3", etcd: "3.5.9", role: "os:operator" },
];

/// A fault on its machine, and the seconds after the start between which it is in force. By default it is in force the whole time.
#[derive(Clone)]
pub(crate) struct Planted {
    pub(crate) fault: &'static Fault,
    /// `None` for a fault of the whole cluster.
    pub(crate) machine: Option<Machine>,
    pub(crate) from: Option<u64>,
    pub(crate) until: Option<u64>,
}

/// A cluster, its faults, and the options of the run.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) control_planes: usize,
    pub(crate) workers: usize,
    pub(crate) release: &'static Release,
    pub(crate) shapes: Vec<&'static Shape>,
    pub(crate) faults: Vec<Planted>,
    pub(crate) choices: Vec<&'static Choice>,
    /// Seed for the machines' names and the order of their addresses; with 0, they are `cp-1` …, `worker-1` … in order.
    pub(crate) shuffle: u64,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            control_planes: 3,
            workers: 1,
            release: &RELEASES[0],
            shapes: Vec::new(),
            faults: Vec::new(),
            choices: Vec::new(),
            shuffle: 0,
        }
    }
}

impl Case {
    /// Draws a random case.
    pub(crate) fn random(random: &mut Random) -> Self {
        let control_planes = *random.pick(&[1, 1, 2, 3, 3, 3, 3, 3, 3, 4, 5, 5, 6, 7]).unwrap_or(&3);
        let workers = *random.pick(&[0, 0, 1, 1, 2, 2, 3, 3, 4, 5, 8, 30]).unwrap_or(&1);
        let release = if random.once_in(3) { random.pick(RELEASES).unwrap_or(&RELEASES[0]) } else { &RELEASES[0] };
        let mut case = Self { control_planes, workers, release, ..Self::default() };
        for _ in 0..*random.pick(&[0, 0, 1, 1, 2, 3]).unwrap_or(&0) {
            let shape = random.pick(shapes::all()).filter(|shape| case.takes_shape(shape));
            case.shapes.extend(shape);
        }
        for _ in 0..*random.pick(&[0, 1, 1, 1, 2, 2, 3, 4]).unwrap_or(&0) {
            if let Some(planted) = case.random_fault(random) {
                case.faults.push(planted);
            }
        }
        for _ in 0..*random.pick(&[0, 0, 0, 1, 1, 2]).unwrap_or(&0) {
            let choice = random.pick(options::all()).filter(|choice| case.takes_choice(choice));
            case.choices.extend(choice);
        }
        if let Some((waits, last)) = case.choices.iter().find_map(|choice| choice.waits) {
            for planted in &mut case.faults {
                if !planted.fault.ends {
                    continue;
                }
                planted.from = random.once_in(3).then(|| 1 + random.below(2) as u64);
                let latest = usize::try_from(waits - last).unwrap_or_default();
                planted.until = (!random.once_in(3)).then(|| 3 + random.below(latest - 2) as u64);
            }
        }
        if random.once_in(4) {
            case.shuffle = 1 + random.below(1_000_000) as u64;
        }
        case
    }

    /// Draws one more fault, if it fits into this case.
    pub(crate) fn random_fault(&self, random: &mut Random) -> Option<Planted> {
        let fault = random.pick(faults::all())?;
        let machines: Vec<_> = self.machines().into_iter().filter(|machine| fault.on.takes(*machine)).collect();
        let machine = if fault.on == On::Cluster { None } else { Some(*random.pick(&machines)?) };
        let planted = Planted { fault, machine, from: None, until: None };
        self.takes_fault(&planted).then_some(planted)
    }

    fn takes_shape(&self, shape: &Shape) -> bool {
        let with = |other: &&Shape| {
            other.name != shape.name && !shape.excludes.contains(&other.name) && !other.excludes.contains(&shape.name)
        };
        (shape.fits)(self) && self.shapes.iter().copied().all(|other| with(&other))
    }

    fn takes_choice(&self, choice: &Choice) -> bool {
        let with = |other: &&'static Choice| {
            other.group != choice.group
                && !choice.excludes.contains(&other.name)
                && !other.excludes.contains(&choice.name)
        };
        (choice.fits)(self)
            && self.choices.iter().all(with)
            && !self.shapes.iter().any(|shape| shape.spoils.contains(&choice.name))
    }

    /// Rejects a fault that the case already has, one that does not fit its shape, and one that would replace the change of another fault.
    fn takes_fault(&self, planted: &Planted) -> bool {
        let meets = |other: &Planted| {
            let touches = planted.fault.touches;
            let same_machine =
                other.machine == planted.machine || touches.is_cluster() || other.fault.touches.is_cluster();
            (other.fault.name == planted.fault.name && other.machine == planted.machine)
                || (touches.excludes(other.fault.touches) && same_machine)
        };
        (planted.fault.fits)(self)
            && !self.faults.iter().any(meets)
            && !self.shapes.iter().any(|shape| shape.spoils.contains(&planted.fault.name))
    }

    /// Whether shapes, faults and options are compatible with each other.
    pub(crate) fn is_sound(&self) -> bool {
        let mut built = Self { shapes: Vec::new(), faults: Vec::new(), choices: Vec::new(), ..self.clone() };
        for shape in &self.shapes {
            if !built.takes_shape(shape) {
                return false;
            }
            built.shapes.push(shape);
        }
        for planted in &self.faults {
            if planted.machine.is_some_and(|machine| !self.machines().contains(&machine)) || !built.takes_fault(planted)
            {
                return false;
            }
            built.faults.push(planted.clone());
        }
        for choice in &self.choices {
            if !built.takes_choice(choice) {
                return false;
            }
            built.choices.push(choice);
        }
        true
    }

    /// Lists all machines: `cp-1` …, then `worker-1` ….
    pub(crate) fn machines(&self) -> Vec<Machine> {
        let of = |controls, last| (1..=last).map(move |number| Machine { controls, number });
        of(true, self.control_planes).chain(of(false, self.workers)).collect()
    }

    /// Lists the machines in the order of their addresses, with their names.
    pub(crate) fn named(&self) -> Vec<(Machine, String)> {
        let mut machines = self.machines();
        if self.shuffle == 0 {
            return machines.into_iter().map(|machine| (machine, machine.to_string())).collect();
        }
        let mut random = Random::of(self.shuffle, 0);
        random.shuffle(&mut machines);
        let mut numbers: Vec<_> = (1..=machines.len()).collect();
        random.shuffle(&mut numbers);
        let style = random.below(3);
        let name = |number: usize| match style {
            0 => format!("node{number}.k8s.example.org"),
            1 => format!("talos-{:03x}-{number}", (self.shuffle + number as u64 * 977) % 4096),
            _ => format!("ip-10-0-{}-{number}.eu-west-1.compute.internal", self.shuffle % 200),
        };
        machines.into_iter().zip(numbers).map(|(machine, number)| (machine, name(number))).collect()
    }

    pub(crate) fn has_shape(&self, name: &str) -> bool {
        self.shapes.iter().any(|shape| shape.name == name)
    }

    pub(crate) fn has_choice(&self, name: &str) -> bool {
        self.choices.iter().any(|choice| choice.name == name)
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", if self.controls { "cp" } else { "worker" }, self.number)
    }
}

impl FromStr for Machine {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (role, number) = text.split_once('-').with_context(|| format!("`{text}` is no machine"))?;
        Ok(Self { controls: role == "cp", number: number.parse().with_context(|| format!("`{text}` is no machine"))? })
    }
}

impl fmt::Display for Planted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.fault.name)?;
        if let Some(machine) = self.machine {
            write!(f, ":{machine}")?;
        }
        match (self.from, self.until) {
            (None, None) => Ok(()),
            (from, until) => {
                let shown = |time: Option<u64>| time.map(|time| time.to_string()).unwrap_or_default();
                write!(f, "@{}-{}", shown(from), shown(until))
            }
        }
    }
}

impl FromStr for Planted {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (what, when) = text.split_once('@').unwrap_or((text, "-"));
        // Fault names can contain colons; machine names cannot.
        let known = |name: &str| faults::all().iter().find(|fault| fault.name == name);
        let (fault, machine) = match (known(what), what.rsplit_once(':')) {
            (Some(fault), _) => (fault, None),
            (None, Some((name, machine))) => {
                (known(name).with_context(|| format!("there is no fault `{name}`"))?, Some(machine.parse()?))
            }
            (None, None) => bail!("there is no fault `{what}`"),
        };
        let (from, until) = when.split_once('-').with_context(|| format!("`{when}` is no time"))?;
        let time = |text: &str| if text.is_empty() { Ok(None) } else { text.parse().map(Some) };
        Ok(Self { fault, machine, from: time(from)?, until: time(until)? })
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { control_planes, workers, release, shapes, faults, choices, shuffle } = self;
        write!(f, "control-planes={control_planes} workers={workers} talos={}", release.talos)?;
        let lists = [
            ("shape", shapes.iter().map(|shape| shape.name.to_owned()).collect::<Vec<_>>()),
            ("faults", faults.iter().map(ToString::to_string).collect()),
            ("options", choices.iter().map(|choice| choice.name.to_owned()).collect()),
        ];
        for (key, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
            write!(f, " {key}={}", list.join(","))?;
        }
        if *shuffle > 0 { write!(f, " shuffle={shuffle}") } else { Ok(()) }
    }
}

impl FromStr for Case {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let mut case = Self::default();
        for word in text.split_whitespace() {
            let (key, value) = word.split_once('=').with_context(|| format!("`{word}` has no `=`"))?;
            match key {
                "control-planes" => case.control_planes = value.parse()?,
                "workers" => case.workers = value.parse()?,
                "talos" => {
                    let found = RELEASES.iter().find(|release| release.talos == value);
                    case.release = found.with_context(|| format!("no world runs Talos `{value}`"))?;
                }
                "shape" => case.shapes = each(value, |name| shapes::all().iter().find(|shape| shape.name == name))?,
                "faults" => case.faults = value.split(',').map(str::parse).collect::<Result<_, _>>()?,
                "options" => {
                    case.choices = each(value, |name| options::all().iter().find(|choice| choice.name == name))?;
                }
                "shuffle" => case.shuffle = value.parse()?,
                _ => bail!("`{key}` is nothing that a case has"),
            }
        }
        Ok(case)
    }
}

fn each<T>(list: &str, find: impl Fn(&str) -> Option<T>) -> anyhow::Result<Vec<T>> {
    list.split(',').map(|name| find(name).with_context(|| format!("there is no `{name}`"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_its_line() {
        for world in 0..2000 {
            let case = Case::random(&mut Random::of(7, world));
            assert!(case.is_sound(), "{case}");
            let line = case.to_string();
            assert_eq!(line.parse::<Case>().unwrap().to_string(), line);
        }
    }

    #[test]
    fn a_seed_is_always_the_same() {
        let line = |seed, world| Case::random(&mut Random::of(seed, world)).to_string();
        assert_eq!(line(1, 1), line(1, 1));
        let lines: std::collections::BTreeSet<_> = (0..100).map(|world| line(1, world)).collect();
        assert!(lines.len() > 90, "{lines:?}");
    }
}
