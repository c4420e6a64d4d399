//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// tick is the unit of the CPU times of children in /proc: USER_HZ is 100 on every Linux
// that Go supports.
const tick = 10 * time.Millisecond

// process is a child in its own process group.
type process struct {
	cmd *exec.Cmd
	log string
}

// start starts the command args. Its output is appended to the file log. Only the main
// goroutine may call start. It is locked to its thread, and the kernel kills the child when
// the thread that started it ends.
func start(log string, env []string, args ...string) (*process, error) {
	logFile, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600) //nolint:gosec // a file of the run
	if err != nil {
		return nil, fmt.Errorf("bench: log: %w", err)
	}
	defer func() { _ = logFile.Close() }()
	cmd := exec.Command(args[0], args[1:]...) //nolint:gosec,noctx // a program of the run, ended by signal
	cmd.Dir = filepath.Dir(log)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = logFile, logFile
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	return &process{cmd: cmd, log: log}, nil
}

// stop kills the process and its group, and waits for the process.
func (p *process) stop() error {
	err := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		err = nil
	}
	_ = p.cmd.Wait() // an error only reports the signal
	return err
}

// usage is the resource usage of a process and its descendants.
type usage struct {
	cpu time.Duration
	rss int64 // bytes
}

// usageOf returns the resource usage of a process with its descendants. It includes the CPU time of
// children that have exited.
func usageOf(pid int) (usage, error) {
	total, err := usageWithoutChildren(pid)
	if err != nil {
		return usage{}, err
	}
	children, err := childrenOf(pid)
	if err != nil {
		return usage{}, err
	}
	for _, child := range children {
		childUsage, err := usageOf(child)
		if err != nil {
			return usage{}, err
		}
		total.cpu += childUsage.cpu
		total.rss += childUsage.rss
	}
	return total, nil
}

// usageWithoutChildren returns the resource usage of a process, with the CPU time of children that have
// exited.
func usageWithoutChildren(pid int) (usage, error) {
	file := fmt.Sprintf("/proc/%d/stat", pid)
	data, err := os.ReadFile(file) //nolint:gosec // of a child
	if err != nil {
		return usage{}, fmt.Errorf("bench: %w", err)
	}
	// The fields are counted after the process name, which is in parentheses and may contain
	// spaces.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	const cutime, cstime, rss = 13, 14, 21 // fields 16, 17 and 24 of proc_pid_stat(5), counted from 0 after the name
	ownTime, err := cpuTimeOf(pid)
	if err != nil {
		return usage{}, err
	}
	var values [3]int64
	for i, field := range []int{cutime, cstime, rss} {
		if values[i], err = strconv.ParseInt(fields[field], 10, 64); err != nil {
			return usage{}, fmt.Errorf("bench: %s: %w", file, err)
		}
	}
	exitedChildrenTime := time.Duration(values[0]+values[1]) * tick
	return usage{cpu: ownTime + exitedChildrenTime, rss: values[2] * int64(os.Getpagesize())}, nil
}

// childrenOf returns the process IDs of the children of a process.
func childrenOf(pid int) ([]int, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return nil, err
	}
	var children []int
	for _, file := range files {
		data, err := os.ReadFile(file) //nolint:gosec // of a child
		if err != nil {
			continue // the thread has ended
		}
		for field := range strings.FieldsSeq(string(data)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				return nil, fmt.Errorf("bench: %s: %w", file, err)
			}
			children = append(children, child)
		}
	}
	return children, nil
}

// cpuTimeOf returns the CPU time of all threads of a process, without its children, in
// nanoseconds. In /proc/PID/stat it has a resolution of 10 ms, which is too coarse for
// the requests of one measurement.
func cpuTimeOf(pid int) (time.Duration, error) {
	const sched = 2 // CPUCLOCK_SCHED as in clock_getcpuclockid(3)
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|sched), &ts); err != nil {
		return 0, fmt.Errorf("bench: CPU time of %d: %w", pid, err)
	}
	return time.Duration(ts.Nano()), nil
}
