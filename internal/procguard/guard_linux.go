package procguard

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxLine is the maximum length of an output line in bytes. Longer lines are split.
	maxLine = 4 << 10
	// sweepPause is the time between two attempts to end the remaining processes of a child.
	sweepPause = 5 * time.Millisecond
	// maxCommandBytes is the largest length of a command in bytes.
	maxCommandBytes = 4 << 20
	// deadlineTick is the longest time between two checks of the deadline. Timers of the Go runtime do not count
	// time in which the machine was suspended, but the deadline does.
	deadlineTick = 20 * time.Millisecond
)

// IsGuard reports whether this process must run as a guard, with Main.
func IsGuard() bool { return len(os.Args) > 0 && os.Args[0] == guardName }

// childState is the state of a child in the guard.
type childState uint8

const (
	childRunning     childState = iota + 1 // its main process runs
	childTerminating                       // it got SIGTERM, and its time has not passed
	childKilling                           // its processes get SIGKILL until none is left
)

// child is a child of the guard.
type child struct {
	id      uint64
	pid     int // of the main process, which is also its session and its process group
	token   string
	state   childState
	killAt  time.Duration // childTerminating: when it gets SIGKILL, by CLOCK_BOOTTIME
	hasMain bool          // the main process has not been reaped
	status  string        // how the main process has ended
}

// guard is the state of a guard process. Only run uses it.
type guard struct {
	nonce    string // distinguishes tokens of different guards
	children map[uint64]*child
	out      *eventQueue

	deadlineSet    bool
	termAt, killAt time.Duration
	nodeEnded      bool // the pipe of commands is closed
}

// Main runs the guard, and returns the exit code. It must be called from the main goroutine, before any other
// goroutine starts processes.
func Main() int {
	runtime.LockOSThread() // the parent-death signal of the children belongs to this thread
	// Signals meant for the node must not end the guard. They are caught rather than ignored, because the children
	// would inherit ignored signals.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	if err := runGuard(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "shardway: process guard:", err)
		return 1
	}
	return 0
}

// runGuard serves commands until in is closed and no child is left.
func runGuard(in io.Reader, out io.WriteCloser) error {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		return fmt.Errorf("child processes cannot be found without /proc: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become a child subreaper: %w", err)
	}
	commands := make(chan command)
	var readError error
	go func() {
		defer close(commands)
		readError = readCommands(in, commands)
	}()
	first, ok := <-commands
	if !ok || first.Kind != commandLock {
		return errors.New("the node has ended")
	}
	lock, err := lockFile(first.Hello, commands)
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // the end of the process unlocks it
	g := &guard{nonce: strconv.FormatInt(int64(os.Getpid()), 36) + strconv.FormatInt(time.Now().UnixNano(), 36), children: map[uint64]*child{}, out: newEventQueue(out)}
	go g.out.run()
	g.out.send(guardEvent{Kind: eventReady})
	g.run(commands)
	return readError
}

// lockFile locks the file at path, and keeps it open. It gives up when commands is closed.
func lockFile(path string, commands <-chan command) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600) //nolint:gosec // the operator names the directory
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return file, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		select {
		case <-commands: // closed: the node has ended
			return nil, errors.New("the node has ended")
		case <-time.After(sweepPause):
		}
	}
}

// readCommands reads commands until in ends.
func readCommands(in io.Reader, commands chan<- command) error {
	scanner := bufio.NewScanner(in)
	scanner.Buffer(make([]byte, 0, 64<<10), maxCommandBytes)
	for scanner.Scan() {
		var next command
		if err := json.Unmarshal(scanner.Bytes(), &next); err != nil {
			return fmt.Errorf("read a command: %w", err)
		}
		commands <- next
	}
	return scanner.Err()
}

// run serves commands, and returns when the node has ended and no child is left.
func (g *guard) run(commands <-chan command) {
	childSignals := make(chan os.Signal, 1)
	signal.Notify(childSignals, syscall.SIGCHLD)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case next, ok := <-commands:
			if !ok {
				commands = nil
				g.nodeEnded = true
				break
			}
			g.handle(&next)
		case <-childSignals:
		case <-timer.C:
		}
		g.reap()
		pause := g.advance()
		if g.nodeEnded && len(g.children) == 0 {
			return
		}
		timer.Reset(pause)
	}
}

// handle handles one command.
func (g *guard) handle(next *command) {
	switch next.Kind {
	case commandStart:
		g.start(next.ID, next.Spec)
	case commandStop:
		if c := g.children[next.ID]; c != nil {
			g.stop(c, next.Grace)
		}
	case commandDeadline:
		g.deadlineSet, g.termAt, g.killAt = true, next.Term, next.Kill
	case commandLock:
	}
}

// start starts a child.
func (g *guard) start(id uint64, spec *Spec) {
	pid, token, err := g.spawn(id, spec)
	if err != nil {
		g.out.send(guardEvent{Kind: eventFailed, ID: id, Text: err.Error()})
		return
	}
	g.children[id] = &child{id: id, pid: pid, token: token, state: childRunning, hasMain: true}
	g.out.send(guardEvent{Kind: eventStarted, ID: id, PID: pid})
}

// spawn starts the main process of a child.
func (g *guard) spawn(id uint64, spec *Spec) (pid int, token string, err error) {
	if spec == nil || len(spec.Args) == 0 {
		return 0, "", errors.New("no program")
	}
	if !g.deadlineSet || Boottime() >= g.termAt {
		return 0, "", errors.New("the node has no lease")
	}
	path, err := lookPath(string(spec.Args[0]), spec)
	if err != nil {
		return 0, "", err
	}
	token = TokenVariable + "=" + g.nonce + "." + strconv.FormatUint(id, 10)
	env := append(texts(spec.Env), token)
	stdin, err := os.Open(os.DevNull)
	if err != nil {
		return 0, "", err
	}
	defer stdin.Close() //nolint:errcheck // only read
	var outputs [2]*os.File
	files := []uintptr{stdin.Fd()}
	for i := range outputs {
		read, write, pipeErr := os.Pipe()
		if pipeErr != nil {
			return 0, "", errors.Join(pipeErr, closeAll(outputs[:i]))
		}
		defer write.Close() //nolint:errcheck // the child has its own copy
		outputs[i] = read
		files = append(files, write.Fd())
	}
	pid, err = syscall.ForkExec(path, texts(spec.Args), &syscall.ProcAttr{ //nolint:gosec // the operator names the program
		Dir: spec.Dir, Env: env, Files: files,
		Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return 0, "", errors.Join(fmt.Errorf("%s: %w", path, err), closeAll(outputs[:]))
	}
	go g.readOutput(id, "stdout", outputs[0])
	go g.readOutput(id, "stderr", outputs[1])
	return pid, token, nil
}

// closeAll closes files.
func closeAll(files []*os.File) (err error) {
	for _, file := range files {
		err = errors.Join(err, file.Close())
	}
	return err
}

// texts converts a list of byte strings.
func texts(list [][]byte) []string {
	converted := make([]string, 0, len(list)+1)
	for _, item := range list {
		converted = append(converted, string(item))
	}
	return converted
}

// readOutput sends the lines that a child writes to one of its streams.
func (g *guard) readOutput(id uint64, stream string, from *os.File) {
	defer from.Close() //nolint:errcheck // only read
	reader := bufio.NewReaderSize(from, maxLine)
	for {
		line, err := reader.ReadSlice('\n')
		if len(line) > 0 {
			g.out.sendOutput(guardEvent{Kind: eventOutput, ID: id, Stream: stream, Text: trimNewline(line)})
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// trimNewline returns line without the newline at its end.
func trimNewline(line []byte) string {
	for len(line) > 0 && (line[len(line)-1] == '\n' || line[len(line)-1] == '\r') {
		line = line[:len(line)-1]
	}
	return string(line)
}

// stop begins to end a child. It can shorten the time of a child that is already terminating.
func (g *guard) stop(c *child, grace time.Duration) {
	killAt := Boottime() + grace
	switch {
	case c.state == childKilling:
	case grace <= 0:
		c.state = childKilling
	case c.state == childRunning:
		c.state, c.killAt = childTerminating, killAt
		_ = unix.Kill(-c.pid, unix.SIGTERM) // an error means that no process is left
	default:
		c.killAt = min(c.killAt, killAt)
	}
}

// reap reaps all processes that have ended. Orphans of children become children of the guard.
func (g *guard) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		for _, c := range g.children {
			if c.pid == pid && c.hasMain {
				c.hasMain, c.status = false, describeStatus(status)
			}
		}
	}
}

// describeStatus describes how a process has ended.
func describeStatus(status syscall.WaitStatus) string {
	if status.Signaled() {
		return "signal: " + status.Signal().String()
	}
	return "exit status " + strconv.Itoa(status.ExitStatus())
}

// advance ends children that are overdue, and reports children without processes. It returns the time until the
// next call.
func (g *guard) advance() time.Duration {
	now := Boottime()
	pastTerm, pastKill := g.deadlineSet && now >= g.termAt, g.deadlineSet && now >= g.killAt
	pause := time.Duration(math.MaxInt64)
	if len(g.children) > 0 {
		pause = deadlineTick
	}
	var table *processTable
	for id, c := range g.children {
		switch {
		case g.nodeEnded || pastKill:
			g.stop(c, 0)
		case pastTerm && c.state == childRunning:
			g.stop(c, g.killAt-now)
		}
		if c.state == childRunning && !c.hasMain || c.state == childTerminating && now >= c.killAt {
			c.state = childKilling
		}
		if c.state == childRunning || c.state == childTerminating && c.hasMain {
			continue
		}
		pause = sweepPause
		if table == nil {
			table = readProcessTable(os.Getpid())
		}
		if g.endProcesses(c, table) {
			delete(g.children, id)
			g.out.send(guardEvent{Kind: eventEnded, ID: id, Text: c.status})
		}
	}
	return pause
}

// endProcesses kills the processes of a child in state childKilling. It returns true if certainly none was left.
func (g *guard) endProcesses(c *child, table *processTable) (ended bool) {
	members := table.members(c, g.children)
	if c.state == childKilling {
		if c.hasMain {
			_ = unix.Kill(-c.pid, unix.SIGKILL)
		}
		for _, pid := range members {
			_ = unix.Kill(pid, unix.SIGKILL) // it may have ended in the meantime
		}
	}
	return !c.hasMain && len(members) == 0 && table.isComplete
}
