package procguard

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Client is the node's end of a guard. Start returns it.
type Client struct {
	events  Events
	process *exec.Cmd
	ready   chan struct{}
	ended   chan struct{} // closed when the guard has ended

	// mu protects the following fields.
	mu   sync.Mutex
	pipe *os.File // commands; nil after Close
}

// ErrGuardEnded is the error of a command to a guard that has ended.
var ErrGuardEnded = errors.New("procguard: the guard of the child processes has ended")

// Start starts a guard and waits until it holds the lock of lockFile, and therefore until the children of an
// earlier guard with the same file have ended. env is the environment of the guard, which its children do not
// inherit.
func Start(ctx context.Context, lockFile string, env []string, events Events) (*Client, error) {
	commandRead, commandWrite, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	eventRead, eventWrite, err := os.Pipe()
	if err != nil {
		_ = commandRead.Close()
		_ = commandWrite.Close()
		return nil, err
	}
	process := &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{guardName}, Env: env, Stdin: commandRead, Stdout: eventWrite, Stderr: os.Stderr,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true}, // Ctrl-C in the terminal is only for the node
	}
	err = process.Start()
	_ = commandRead.Close() // the guard has its own copies
	_ = eventWrite.Close()
	if err != nil {
		_ = commandWrite.Close()
		_ = eventRead.Close()
		return nil, fmt.Errorf("procguard: start the guard: %w", err)
	}
	c := &Client{events: events, process: process, pipe: commandWrite, ready: make(chan struct{}), ended: make(chan struct{})}
	go c.receive(eventRead)
	if err := c.send(&command{Kind: commandLock, Hello: lockFile}); err != nil {
		c.Close()
		return nil, err
	}
	select {
	case <-c.ready:
		return c, nil
	case <-c.ended:
		return nil, fmt.Errorf("procguard: the guard did not lock %s: %w", lockFile, ErrGuardEnded)
	case <-ctx.Done():
		c.Close()
		return nil, fmt.Errorf("procguard: %s is locked by an earlier process: %w", lockFile, context.Cause(ctx))
	}
}

// receive passes the events of the guard on until the guard ends.
func (c *Client) receive(events *os.File) {
	defer close(c.ended)
	defer events.Close() //nolint:errcheck // only read
	decoder := json.NewDecoder(bufio.NewReaderSize(events, 64<<10))
	for {
		var event guardEvent
		if err := decoder.Decode(&event); err != nil {
			err = errors.Join(ErrGuardEnded, c.process.Wait())
			if c.events.GuardEnded != nil {
				c.events.GuardEnded(err)
			}
			return
		}
		c.dispatch(&event)
	}
}

// dispatch calls the function of Events for event.
func (c *Client) dispatch(event *guardEvent) {
	switch event.Kind {
	case eventReady:
		close(c.ready)
	case eventStarted:
		c.events.Started(event.ID, event.PID)
	case eventFailed:
		c.events.Failed(event.ID, event.Text)
	case eventEnded:
		c.events.Ended(event.ID, event.Text)
	case eventOutput:
		c.events.Output(event.ID, event.Stream, event.Text, event.Lost)
	}
}

// send sends a command.
func (c *Client) send(message *command) error {
	line, err := json.Marshal(message)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pipe == nil {
		return ErrGuardEnded
	}
	if _, err := c.pipe.Write(append(line, '\n')); err != nil {
		return errors.Join(ErrGuardEnded, err)
	}
	return nil
}

// StartChild starts a child. id must be new. Events.Started or Events.Failed reports the result.
func (c *Client) StartChild(id uint64, spec *Spec) error {
	return c.send(&command{Kind: commandStart, ID: id, Spec: spec})
}

// StopChild sends SIGTERM to a child, and SIGKILL after grace. Zero means SIGKILL at once. A later call can
// only shorten the time. Events.Ended reports the end.
func (c *Client) StopChild(id uint64, grace time.Duration) error {
	return c.send(&command{Kind: commandStop, ID: id, Grace: grace})
}

// SetDeadline sets when, in CLOCK_BOOTTIME, all children get SIGTERM and SIGKILL unless another call extends the
// deadline first. No child starts after term.
func (c *Client) SetDeadline(term, kill time.Duration) error {
	return c.send(&command{Kind: commandDeadline, Term: term, Kill: kill})
}

// Close makes the guard kill all children, and waits for it to exit.
func (c *Client) Close() {
	c.mu.Lock()
	pipe := c.pipe
	c.pipe = nil
	c.mu.Unlock()
	if pipe != nil {
		_ = pipe.Close()
	}
	<-c.ended
}

// Boottime returns the time of CLOCK_BOOTTIME.
func Boottime() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) // cannot fail for this clock
	return time.Duration(now.Nano())
}
