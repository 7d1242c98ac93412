//! `make chaos`: runs the built program against random simulated clusters with random faults. Since the truth about each cluster is known,
//! every report is either right or a finding. A finding is reduced to its smallest case and written down as a row of the matrix.
//! `make attack` runs it against malicious servers and files (`attack`).

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for the terminal of whoever develops this one"
)]

mod advice;
mod attack;
mod case;
mod faults;
mod known;
mod laws;
mod options;
mod plan;
mod random;
mod run;
mod shapes;
mod shrink;
mod tools;
mod truth;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context as _;
use clap::Parser;

use crate::case::Case;
use crate::known::Known;
use crate::laws::Broken;
use crate::plan::Plan;
use crate::random::Random;
use crate::run::Program;
use crate::tools::Tools;

/// Tests the built program against random clusters with a known truth
#[derive(Parser)]
struct Cli {
    /// Seed of the random numbers; the same seed makes the same clusters
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of clusters
    #[arg(long, short = 'n', default_value_t = 200)]
    worlds: u64,
    /// Run only the case of this line, and print the report
    #[arg(long, value_name = "LINE")]
    case: Option<String>,
    /// Run each fault alone, and print the reports
    #[arg(long)]
    faults: bool,
    /// Run malicious servers and files instead of clusters: all of them, or those whose name contains TEXT
    #[arg(long, value_name = "TEXT", num_args = 0..=1, default_missing_value = "")]
    attack: Option<String>,
    /// The program under test
    #[arg(long, value_name = "PATH")]
    program: PathBuf,
    /// Use IPv6 addresses only. Loopback needs enough of them: use `unshare --net`, with one cluster at a time
    #[arg(long)]
    ipv6: bool,
    /// Directory with talosctl and kubectl. Proposed commands that only read are run against the clusters; commands that change something
    /// only have their arguments parsed. Each kind of command is tried once
    #[arg(long, value_name = "DIR")]
    tools: Option<PathBuf>,
    /// Number of clusters at a time
    #[arg(long, default_value_t = 12)]
    jobs: usize,
    /// File of known defects
    #[arg(long, value_name = "PATH", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/known.toml"))]
    known: PathBuf,
    /// Directory for findings
    #[arg(long, value_name = "DIR", default_value = "target/chaos")]
    out: PathBuf,
}

fn main() -> ExitCode {
    match chaos(&Cli::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("chaos: {error:#}");
            ExitCode::from(70)
        }
    }
}

fn chaos(cli: &Cli) -> anyhow::Result<bool> {
    let tools = cli.tools.as_ref().map(std::path::absolute).transpose()?.map(Tools::of);
    let program = Program { path: std::path::absolute(&cli.program)?, ipv6: cli.ipv6, tools };
    if let Some(only) = &cli.attack {
        return attack::run(&program, only);
    }
    allow_many_sockets();
    if let Some(line) = &cli.case {
        return one(&program, &line.parse()?);
    }
    let known = known::read(&cli.known)?;
    let hunt = Hunt { program, seed: cli.seed, known, out: cli.out.clone(), ..Hunt::default() };
    if cli.faults {
        let alone = faults::all().iter().filter_map(|fault| {
            let machine = Case::default().machines().into_iter().find(|machine| fault.on.takes(*machine));
            let planted = case::Planted { fault, machine, from: None, until: None };
            let case = Case { faults: vec![planted], ..Case::default() };
            case.is_sound().then_some(case)
        });
        hunt.run(&alone.collect::<Vec<_>>(), cli.jobs);
    } else {
        let cases = (0..cli.worlds).map(|world| Case::random(&mut Random::of(cli.seed, world)));
        hunt.run(&cases.collect::<Vec<_>>(), cli.jobs);
    }
    Ok(hunt.conclude())
}

/// Raises the limit of open files, because each machine of a cluster needs several sockets.
fn allow_many_sockets() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // The hard limit is as far as an unprivileged process can go.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Runs one case and prints what is true and what was reported.
fn one(program: &Program, case: &Case) -> anyhow::Result<bool> {
    println!("{}", Plan::of(case).row(&case.to_string(), 1, &[]));
    let said = program.run(case)?;
    let truth = truth::Truth::of(case, &said);
    println!("true: {:?}\nsaid: {}", truth.verdict, said.shown());
    let broken = laws::judge(program, case, 1)?;
    for broken in &broken {
        println!("{}: {}", broken.law, broken.why);
    }
    Ok(broken.is_empty())
}

/// A search for cases with a wrong report.
#[derive(Default)]
struct Hunt {
    program: Program,
    seed: u64,
    known: Vec<Known>,
    out: PathBuf,
    next: AtomicU64,
    /// Findings by law and case.
    found: Mutex<BTreeMap<String, Finding>>,
    /// Findings that could not be reproduced.
    unsteady: Mutex<Vec<String>>,
    /// Hits of each entry of `known`, by index.
    met: Mutex<BTreeMap<usize, usize>>,
    errors: Mutex<Vec<String>>,
}

struct Finding {
    case: Case,
    broken: Broken,
    path: PathBuf,
    times: usize,
}

impl Hunt {
    fn run(&self, cases: &[Case], jobs: usize) {
        std::thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(|| {
                    loop {
                        let next = self.next.fetch_add(1, Ordering::Relaxed);
                        let Some(case) = usize::try_from(next).ok().and_then(|next| cases.get(next)) else { return };
                        if let Err(error) = self.hold(case, next) {
                            lock(&self.errors).push(format!("world {next}, {case}: {error:#}"));
                        }
                        if next > 0 && next.is_multiple_of(100) {
                            eprintln!("{next} of {}", cases.len());
                        }
                    }
                });
            }
        });
    }

    /// Tests the program with one case.
    fn hold(&self, case: &Case, world: u64) -> anyhow::Result<()> {
        let seed = self.seed.wrapping_add(world);
        for broken in laws::judge(&self.program, case, seed)? {
            if self.is_known(case, &broken.law) || self.is_found(case, &broken.law) {
                continue;
            }
            // Ignores findings that only occur because the computer is busy.
            let again = |case: &Case| self.breaks(case, &broken.law, seed);
            if again(case).is_none() {
                lock(&self.unsteady).push(format!("{}: {case}\n{}\n{}", broken.law, broken.why, broken.said));
                continue;
            }
            let small = shrink::shrink(case, |case| again(case).is_some());
            if self.is_known(&small, &broken.law) || self.is_found(&small, &broken.law) {
                continue;
            }
            let broken = again(&small).unwrap_or(broken);
            let path = self.write(&small, &broken)?;
            println!("{}: {small}\n  {}\n  {}\n", broken.law, broken.why.replace('\n', "\n  "), path.display());
            let key = format!("{} {small}", broken.law);
            lock(&self.found).insert(key, Finding { case: small, broken, path, times: 1 });
        }
        Ok(())
    }

    fn breaks(&self, case: &Case, law: &str, seed: u64) -> Option<Broken> {
        laws::judge(&self.program, case, seed).ok()?.into_iter().find(|broken| broken.law == law)
    }

    fn is_known(&self, case: &Case, law: &str) -> bool {
        let met = self.known.iter().position(|known| known.law == law && known::has(case, &known.case));
        if let Some(met) = met {
            *lock(&self.met).entry(met).or_default() += 1;
        }
        met.is_some()
    }

    fn is_found(&self, case: &Case, law: &str) -> bool {
        let mut found = lock(&self.found);
        let same = found.values_mut().find(|finding| finding.broken.law == law && known::has(case, &finding.case));
        same.map(|finding| finding.times += 1).is_some()
    }

    fn write(&self, case: &Case, broken: &Broken) -> anyhow::Result<PathBuf> {
        std::fs::create_dir_all(&self.out).with_context(|| self.out.display().to_string())?;
        let law: String =
            broken.law.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect();
        let number =
            case.to_string().bytes().fold(7_u32, |number, byte| number.wrapping_mul(31).wrapping_add(byte.into()));
        let path = self.out.join(format!("{law}-{number:08x}.toml"));
        let again = format!("chaos --case '{case}'");
        let is_healthy = broken.law.starts_with("red") || broken.law.starts_with("healthy");
        let exit = i32::from(!is_healthy);
        let row = Plan::of(case).row(
            &case.to_string(),
            exit,
            &[again, broken.law.clone(), broken.why.clone(), broken.said.clone()],
        );
        std::fs::write(&path, row)?;
        Ok(path)
    }

    /// Prints a summary. Returns whether there are no new findings and every known one still occurs.
    fn conclude(&self) -> bool {
        let found = lock(&self.found);
        let met = lock(&self.met);
        let mut needless = Vec::new();
        for (at, known) in self.known.iter().enumerate() {
            if !met.contains_key(&at) && self.breaks(&known.case, &known.law, self.seed).is_none() {
                needless.push(known);
            }
        }
        for finding in found.values() {
            println!("{} times {}: {} ({})", finding.times, finding.broken.law, finding.case, finding.path.display());
        }
        for known in &needless {
            println!("needed no longer: {}: {} ({})", known.law, known.case, known.why);
        }
        let unsteady = lock(&self.unsteady);
        for unsteady in unsteady.iter() {
            println!("only once: {unsteady}");
        }
        let errors = lock(&self.errors);
        errors.iter().for_each(|error| println!("not run: {error}"));
        let misunderstood = self.program.tools.as_ref().map(Tools::misunderstood).unwrap_or_default();
        for command in &misunderstood {
            println!("not understood: {command}");
        }
        if let Some(tools) = &self.program.tools {
            println!("{} kinds of commands were given to talosctl and kubectl", tools.count());
        }
        let worlds = self.next.load(Ordering::Relaxed);
        println!(
            "seed {}: {} findings, {} known, {} not seen twice, {} not run, about {worlds} worlds",
            self.seed,
            found.len(),
            met.len(),
            unsteady.len(),
            errors.len()
        );
        found.is_empty() && needless.is_empty() && errors.is_empty() && misunderstood.is_empty()
    }
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
