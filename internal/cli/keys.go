package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// watchKey calls f for each press of a key at a terminal. Until restore is called, the terminal
// delivers keys immediately and does not echo them. Other keys are discarded. The goroutine that reads
// lives until the process exits. watchKey does nothing if the file is not a terminal.
func watchKey(terminal *os.File, key byte, f func()) (restore func()) {
	fd := int(terminal.Fd())
	before, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return func() {}
	}
	raw := *before
	raw.Lflag &^= unix.ICANON | unix.ECHO // ISIG stays set, so that Ctrl-C ends the command
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	if unix.IoctlSetTermios(fd, setTermios, &raw) != nil {
		return func() {}
	}
	go func() {
		data := make([]byte, 1)
		for {
			if n, err := terminal.Read(data); n == 0 || err != nil {
				return
			}
			if data[0] == key {
				f()
			}
		}
	}()
	return func() { _ = unix.IoctlSetTermios(fd, setTermios, before) }
}
