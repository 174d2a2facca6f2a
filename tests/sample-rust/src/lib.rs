//! A transport under test: a request of one byte is answered with a number of bytes.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};

/// Serves one request.
pub fn serve(listener: &TcpListener, bytes: usize) -> io::Result<()> {
    let (mut stream, _) = listener.accept()?;
    stream.read_exact(&mut [0])?;
    stream.write_all(&vec![0; bytes])
}

/// Asks for everything, and returns the number of bytes.
pub fn ask(mut stream: TcpStream) -> io::Result<u64> {
    stream.write_all(b"?")?;
    io::copy(&mut stream, &mut io::sink())
}
