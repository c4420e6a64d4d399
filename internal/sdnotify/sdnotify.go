// Package sdnotify reports the state of this process to the service manager that started it. It
// implements the protocol of sd_notify(3): datagrams with lines of text to a Unix socket.
package sdnotify

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// sendTimeout limits a send to a service manager that does not read its socket.
const sendTimeout = time.Second

// Lines that report a state. Status and Reloading return further lines.
const (
	Ready    = "READY=1"
	Stopping = "STOPPING=1"
)

// Manager is the service manager of this process. The zero value means that there is none, and
// discards all reports.
type Manager struct{ addr string }

// New returns the manager that an environment names, a list of NAME=VALUE. systemd sets
// NOTIFY_SOCKET to the path of its socket, or to "@" and the name of an abstract socket.
func New(environ []string) Manager {
	for _, e := range environ {
		if addr, ok := strings.CutPrefix(e, "NOTIFY_SOCKET="); ok && (strings.HasPrefix(addr, "/") || strings.HasPrefix(addr, "@")) {
			return Manager{addr}
		}
	}
	return Manager{}
}

// IsPresent reports whether there is a manager that accepts reports.
func (m Manager) IsPresent() bool { return m.addr != "" }

// Notify sends the lines to the manager in one datagram. It does nothing without a manager.
func (m Manager) Notify(lines ...string) error {
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
