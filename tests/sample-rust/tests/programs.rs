//! Programs behind a link.

use std::error::Error;
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use sojourn_link::{Builder, Host, Link, Stdio};

#[test]
fn a_program_on_the_client_reaches_one_on_the_server() -> Result<(), Box<dyn Error>> {
    let link = Builder::new("10mbit", "50ms", "fq_codel").up("2mbit").open()?;
    let mut server = link.command(Host::Server, "python3");
    let mut server = server.args(["-u", "-m", "http.server", "8000"]).stdout(Stdio::Piped).spawn()?;
    // It says so when it listens.
    server.stdout.as_mut().expect("piped").read_exact(&mut [0; 7])?;
    let url = format!("http://{}:8000/", link.server());
    let fetch = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1]).status)";
    let done = link.command(Host::Client, "python3").args(["-c", fetch, &url]).output()?;
    assert_eq!(String::from_utf8(done.stdout)?, "200\n", "{}", String::from_utf8(done.stderr)?);
    server.kill()?;
    assert_eq!(server.wait()?.signal(), Some(9));
    Ok(())
}

#[test]
fn a_program_has_its_environment_its_folder_and_its_exit_code() -> Result<(), Box<dyn Error>> {
    let link = Link::new("100mbit", "10ms", "pfifo")?;
    let script = "echo $SOJOURN_SERVER $SOJOURN_CLIENT $OWN $PWD; echo no >&2; exit 3";
    let mut command = link.command(Host::Client, "sh");
    let done = command.args(["-c", script]).env("OWN", "x").env_remove("HOME").current_dir("/").output()?;
    assert_eq!(String::from_utf8(done.stdout)?, format!("{} {} x /\n", link.server(), link.client()));
    assert_eq!((done.stderr.as_slice(), done.status.code()), (b"no\n".as_slice(), Some(3)));
    Ok(())
}

#[test]
fn a_pipe_leads_through_a_program() -> Result<(), Box<dyn Error>> {
    let link = Link::new("100mbit", "10ms", "pfifo")?;
    let mut cat = link.command(Host::Client, "cat").stdin(Stdio::Piped).stdout(Stdio::Piped).spawn()?;
    cat.stdin.as_mut().expect("piped").write_all(b"through")?;
    assert_eq!(cat.try_wait()?, None);
    assert!(cat.wait()?.success());
    let mut said = String::new();
    cat.stdout.as_mut().expect("piped").read_to_string(&mut said)?;
    assert_eq!(said, "through");
    Ok(())
}

#[test]
fn what_goes_wrong_is_told() -> Result<(), Box<dyn Error>> {
    let link = Link::new("100mbit", "10ms", "pfifo")?;
    let missing = link.command(Host::Client, "no-such-program").spawn().expect_err("there is none");
    assert!(missing.to_string().starts_with("no-such-program: "), "{missing}");
    let mut endless = link.command(Host::Client, "sleep");
    let late = endless.arg("60").timeout(Duration::from_millis(50)).status().expect_err("it does not end");
    assert_eq!(late.kind(), io::ErrorKind::TimedOut);
    let mut left = link.command(Host::Client, "sleep").arg("60").spawn()?;
    drop(link);
    assert_eq!(left.wait().expect_err("its link has ended").to_string(), "the link has ended");
    Ok(())
}

#[test]
fn a_scenario_file_has_links_too() -> Result<(), Box<dyn Error>> {
    let file = std::env::temp_dir().join(format!("sample-{}.toml", std::process::id()));
    std::fs::write(
        &file,
        "duration = \"1s\"\nhop = [{ name = \"a\", rate = \"1mbit\" }]\nflow = [{ kind = \"bulk\", name = \"bulk\" }]\n",
    )?;
    let link = Builder::file(&file).set("flow.bulk.rtt", "20ms").flows(true).open()?;
    std::fs::remove_file(file)?;
    assert_eq!(link.queues(), ["a", "a.reverse"]);
    std::thread::sleep(Duration::from_millis(500));
    assert!(link.stats()?["links"][0]["packets"].as_u64() > Some(5));
    Ok(())
}
