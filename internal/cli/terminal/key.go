// Package terminal reads single keys from the terminal of a command.
package terminal

import (
	"os"

	"golang.org/x/sys/unix"
)

// WatchKey calls onPress for each press of a key at a terminal. Until restore is called, the terminal
// delivers keys immediately and does not echo them. Other keys are discarded. The goroutine that reads
// lives until the process exits. WatchKey does nothing if the file is not a terminal.
func WatchKey(terminal *os.File, key byte, onPress func()) (restore func()) {
	terminalFD := int(terminal.Fd())
	previous, err := unix.IoctlGetTermios(terminalFD, getTermios)
	if err != nil {
		return func() {}
	}
	raw := *previous
	raw.Lflag &^= unix.ICANON | unix.ECHO // ISIG stays set, so that Ctrl-C ends the command
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	if unix.IoctlSetTermios(terminalFD, setTermios, &raw) != nil {
		return func() {}
	}
	go func() {
		data := make([]byte, 1)
		for {
			if n, err := terminal.Read(data); n == 0 || err != nil {
				return
			}
			if data[0] == key {
				onPress()
			}
		}
	}()
	return func() { _ = unix.IoctlSetTermios(terminalFD, setTermios, previous) }
}
