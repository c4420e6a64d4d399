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

// server is the process that serves one disk, as its parent process sees it. It ends with
// its parent.
type server struct {
	cmd *exec.Cmd
	// stderr is its standard error, complete after the process has ended.
	stderr bytes.Buffer

	mu       sync.Mutex
	commands *json.Encoder
	replies  *json.Decoder
}

// startServer starts a process that serves a disk: it answers requests of the kernel from device with
// the files of tmpfs. startServer returns when the disk is ready.
func startServer(device, tmpfs *os.File) (*server, error) {
	if os.Getenv(serverVariable) != "" {
		return nil, fmt.Errorf("faultfs: %s is set: a process that serves a disk cannot mount one", serverVariable)
	}
	// If the test does not call Serve, it must not run its tests again.
	cmd := exec.Command("/proc/self/exe", "-test.run=^$") //nolint:noctx // it ends with its input
	s := &server{cmd: cmd}
	cmd.Env = append(os.Environ(), serverVariable+"=1")
	cmd.ExtraFiles = []*os.File{device, tmpfs}
	cmd.Stderr = &s.stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the process ignores an interrupt from the terminal
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("faultfs: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("faultfs: %w", err)
	}
	if err := startWithPriority(cmd); err != nil {
		return nil, fmt.Errorf("faultfs: %w", err)
	}
	s.commands, s.replies = json.NewEncoder(stdin), json.NewDecoder(stdout)
	var ready reply
	if err := s.replies.Decode(&ready); err != nil {
		s.kill()
		return nil, fmt.Errorf("faultfs: the process that serves the disk printed %q; does TestMain call faultfs.Serve? %w", strings.TrimSpace(s.stderr.String()), err)
	}
	return s, nil
}

// startWithPriority starts a program with real-time priority, if permitted, since a
// device does not compete for CPU time.
func startWithPriority(cmd *exec.Cmd) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, since the priority ends with the thread
		_ = rtprio.Thread()    // without priority the disk is just slower
		started <- cmd.Start()
	}()
	return <-started
}

// send sends a command and returns the number of calls that the fault has affected.
func (s *server) send(cmd command) (hits int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var response reply
	if err := s.commands.Encode(cmd); err != nil {
		return 0, fmt.Errorf("faultfs: send command: %w", err)
	}
	if err := s.replies.Decode(&response); err != nil {
		return 0, fmt.Errorf("faultfs: receive reply: %w", err)
	}
	return response.Hits, nil
}

// kill ends the process. Delayed calls fail.
func (s *server) kill() {
	_ = s.cmd.Process.Kill() // the process may have ended
	_ = s.cmd.Wait()
}
