// Package sdnotify tells the service manager that started this process how it fares:
// the protocol of sd_notify(3), datagrams of lines to a Unix socket.
package sdnotify

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// sendTimeout bounds a word to a service manager that does not read.
const sendTimeout = time.Second

// What a process may say of itself. Each is a line of its own; see Status and Reloading
// for the others.
const (
	Ready    = "READY=1"
	Stopping = "STOPPING=1"
)

// Manager is the service manager. The zero value is none: what it is told goes nowhere.
type Manager struct{ addr string }

// New finds the manager in the environment, NAME=VALUE: systemd names its socket in
// NOTIFY_SOCKET, by a path or, after "@", a name.
func New(environ []string) Manager {
	for _, e := range environ {
		if addr, ok := strings.CutPrefix(e, "NOTIFY_SOCKET="); ok && (strings.HasPrefix(addr, "/") || strings.HasPrefix(addr, "@")) {
			return Manager{addr}
		}
	}
	return Manager{}
}

// Asked reports whether there is a manager that wants to know.
func (m Manager) Asked() bool { return m.addr != "" }

// Tell sends these lines together. An error means that the manager does not know.
func (m Manager) Tell(lines ...string) error {
	if m.addr == "" {
		return nil
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: m.addr, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("sdnotify: %w", err)
	}
	defer func() { _ = c.Close() }()
	if err = c.SetWriteDeadline(time.Now().Add(sendTimeout)); err == nil {
		_, err = c.Write([]byte(strings.Join(lines, "\n")))
	}
	if err != nil {
		return fmt.Errorf("sdnotify: %w", err)
	}
	return nil
}

// Status returns the line that sets the status text of the process in the service manager.
func Status(text string) string {
	return "STATUS=" + strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, text)
}

// Reloading returns the lines that report a reload of the settings, until Ready. The time lets the
// manager ignore a Ready that was sent before its request.
func Reloading() []string {
	return []string{"RELOADING=1", "MONOTONIC_USEC=" + strconv.FormatInt(monotonic().Microseconds(), 10)}
}
