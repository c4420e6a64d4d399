package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// onKey calls f when a key is pressed at a terminal, which gives keys at once and does
// not show them until restore. Elsewhere it does nothing. What is read is lost; the read
// itself ends with the process.
func onKey(terminal *os.File, key byte, f func()) (restore func()) {
	fd := int(terminal.Fd())
	before, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return func() {}
	}
	raw := *before
	raw.Lflag &^= unix.ICANON | unix.ECHO // signals stay: Ctrl-C ends the command
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	if unix.IoctlSetTermios(fd, setTermios, &raw) != nil {
		return func() {}
	}
	go func() {
		b := make([]byte, 1)
		for {
			if n, err := terminal.Read(b); n == 0 || err != nil {
				return
			}
			if b[0] == key {
				f()
			}
		}
	}()
	return func() { _ = unix.IoctlSetTermios(fd, setTermios, before) }
}
