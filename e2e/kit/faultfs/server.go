//go:build linux

package faultfs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"shardway/e2e/kit/rtprio"
)

// server is the process that serves one disk, seen from the one that gives it
// orders. It ends when nobody does any more.
type server struct {
	cmd *exec.Cmd
	// said is its standard error; whole once the process has ended.
	said bytes.Buffer

	mu  sync.Mutex
	out *json.Encoder
	in  *json.Decoder
}

// startServer returns when the disk answers.
func startServer(device, tmpfs *os.File) (*server, error) {
	if os.Getenv(servesDisk) != "" {
		return nil, fmt.Errorf("badisk: %s is set: a process that serves a disk has none", servesDisk)
	}
	// A test that forgets Serve runs none of its tests a second time.
	cmd := exec.Command("/proc/self/exe", "-test.run=^$") //nolint:noctx // it ends with its input
	s := &server{cmd: cmd}
	cmd.Env = append(os.Environ(), servesDisk+"=1")
	cmd.ExtraFiles = []*os.File{device, tmpfs}
	cmd.Stderr = &s.said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // it outlives an interrupt from the terminal
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("badisk: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("badisk: %w", err)
	}
	if err := startUrgently(cmd); err != nil {
		return nil, fmt.Errorf("badisk: %w", err)
	}
	s.out, s.in = json.NewEncoder(in), json.NewDecoder(out)
	var a answer
	if err := s.in.Decode(&a); err != nil {
		s.end()
		return nil, fmt.Errorf("badisk: the process that serves the disk said %q: does TestMain call badisk.Serve? %w", strings.TrimSpace(s.said.String()), err)
	}
	return s, nil
}

// startUrgently starts a program that precedes all others, where that may be: a
// device does not compete for processors.
func startUrgently(cmd *exec.Cmd) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the precedence ends with the thread
		_ = rtprio.Thread()    // else it is a slower disk
		started <- cmd.Start()
	}()
	return <-started
}

// order gives an order and returns how many calls the fault has struck.
func (s *server) order(o order) (hits int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var a answer
	if err := s.out.Encode(o); err != nil {
		return 0, fmt.Errorf("badisk: no disk takes orders: %w", err)
	}
	if err := s.in.Decode(&a); err != nil {
		return 0, fmt.Errorf("badisk: no disk answers orders: %w", err)
	}
	return a.Hits, nil
}

// end ends the process; calls that wait fail.
func (s *server) end() {
	_ = s.cmd.Process.Kill() // it may have ended
	_ = s.cmd.Wait()
}
