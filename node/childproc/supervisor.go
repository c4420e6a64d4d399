package childproc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"shardway/internal/execcommand"
	"shardway/internal/procguard"
	"shardway/proxy/procpool"
	"shardway/shardmap"
)

// Per is what a process is for.
type Per uint8

// The values of --exec-per.
const (
	PerKey Per = iota + 1
	PerShard
)

// Options are the options of a Supervisor.
type Options struct {
	Command execcommand.Command
	Per     Per
	Dir     string // the parent of the processes' directories; created with mode 0700
	// ReadyPath is a path for which a process returns 2xx once it is ready; {key} stands for the
	// escaped key. If it is empty, the process is ready when it accepts connections.
	ReadyPath string
	// Idle is the time after which an unused process is stopped. Zero means never.
	Idle time.Duration
	// Max limits the number of processes.
	Max int
	// StartTimeout limits the time until a process is ready.
	StartTimeout time.Duration
	// ReleaseTimeout limits the time from SIGTERM to SIGKILL, including a reserve.
	ReleaseTimeout time.Duration
	// LockFile is locked while processes of this node may run.
	LockFile string
	// Environ is the environment of the node. Processes inherit it without the node's own
	// variables.
	Environ []string
	Node    string
	// ShowKeys is set if the log contains keys, not only their hashes.
	ShowKeys bool
	Log      zerolog.Logger
}

// Owner is the node around a Supervisor.
type Owner struct {
	// Usage is the proxy's view of how processes are used.
	Usage Usage
	// Deadline returns when all processes must get SIGTERM and SIGKILL if the node gets no further
	// lease, in CLOCK_BOOTTIME. ok is false if there is no lease.
	Deadline func() (term, kill time.Duration, ok bool)
	// HashKey returns the hash of a key for the log.
	HashKey func(key string) string
	// Fail is called when the guard has exited, because the node can then no longer reliably end
	// the processes.
	Fail func(error)
	// OnFailure is called when a process has failed. It must neither block nor call the Supervisor.
	OnFailure func(Failure)
}

// Usage is the proxy's view of how processes are used. See procpool.Pools.
type Usage interface {
	Idle(target procpool.Target) (idle time.Duration, ok bool)
	CloseIfIdle(target procpool.Target, idle time.Duration) bool
	Close(target procpool.Target)
}

// Supervisor starts and stops the processes of one node. New returns it, and Start must be called before it
// starts processes.
type Supervisor struct {
	options Options
	environ []string
	output  outputLimit

	lifeCtx context.Context //nolint:containedctx // ends in Close
	endLife context.CancelFunc
	loops   sync.WaitGroup
	guard   *procguard.Client
	owner   Owner

	mu sync.Mutex
	// mu protects the following fields.
	owned     map[shardmap.Shard]shardmap.Epoch // shards that the node has acquired
	processes map[procpool.Target]*process
	byID      map[uint64]*process
	failures  map[procpool.Target]*failure
	slots     int // processes with hasSlot
	lastID    uint64
	counts    Counts
	closed    bool
}

// New returns a Supervisor without processes.
func New(options Options) *Supervisor {
	s := &Supervisor{
		options: options, environ: environment(options.Environ),
		owned: map[shardmap.Shard]shardmap.Epoch{}, processes: map[procpool.Target]*process{}, byID: map[uint64]*process{}, failures: map[procpool.Target]*failure{},
	}
	s.lifeCtx, s.endLife = context.WithCancel(context.Background())
	return s
}

// Attach connects the Supervisor to its node. The caller must call it once, before Start.
func (s *Supervisor) Attach(owner Owner) { s.owner = owner }

// TargetOf returns the target of a request.
func (s *Supervisor) TargetOf(shard shardmap.Shard, key []byte) procpool.Target {
	if s.options.Per == PerShard {
		return procpool.Target{Shard: shard}
	}
	return procpool.Target{Shard: shard, Key: string(key)}
}

// CheckKey returns an error if a key cannot have a process.
func (s *Supervisor) CheckKey(key []byte) error {
	if s.options.Per == PerShard {
		return nil
	}
	return s.options.Command.CheckKey(key)
}

// Start starts the guard and waits until the processes of an earlier run of this node have ended.
func (s *Supervisor) Start(ctx context.Context) error {
	if err := os.MkdirAll(s.options.Dir, 0o700); err != nil {
		return fmt.Errorf("childproc: --exec-dir: %w", err)
	}
	guard, err := procguard.Start(ctx, s.options.LockFile, s.environ, procguard.Events{
		Started: s.onStarted, Failed: s.onStartFailed, Ended: s.onEnded, Output: s.onOutput, GuardEnded: s.onGuardEnded,
	})
	if err != nil {
		return err
	}
	s.guard = guard
	s.loops.Go(s.renewDeadline)
	s.loops.Go(s.stopIdle)
	return nil
}

// Close ends all processes and returns when none is left.
func (s *Supervisor) Close() {
	s.mu.Lock()
	s.closed = true
	clear(s.owned)
	s.mu.Unlock()
	s.endLife()
	if s.guard != nil {
		s.guard.Close()
	}
	s.loops.Wait()
}

// deadlineInterval is the interval at which the guard gets a new deadline.
const deadlineInterval = 25 * time.Millisecond

// renewDeadline sends the deadline to the guard whenever it has changed.
func (s *Supervisor) renewDeadline() {
	ticker := time.NewTicker(deadlineInterval)
	defer ticker.Stop()
	var lastKill time.Duration
	for {
		// The times are computed from two clock readings, so equal deadlines may differ slightly.
		const tolerance = time.Millisecond
		if _, kill, ok := s.owner.Deadline(); ok && kill-lastKill > tolerance {
			lastKill = kill
			s.sendDeadline()
		}
		select {
		case <-s.lifeCtx.Done():
			return
		case <-ticker.C:
		}
	}
}

// sendDeadline sends the current deadline to the guard. It returns false without a lease.
func (s *Supervisor) sendDeadline() (hasLease bool) {
	term, kill, hasLease := s.owner.Deadline()
	if hasLease {
		_ = s.guard.SetDeadline(term, kill) // onGuardEnded reports a guard that has ended
	}
	return hasLease
}

// idleInterval is the interval between searches for unused processes.
const idleInterval = 500 * time.Millisecond

// stopIdle stops processes that have been idle for Options.Idle.
func (s *Supervisor) stopIdle() {
	if s.options.Idle == 0 {
		return
	}
	ticker := time.NewTicker(min(idleInterval, s.options.Idle))
	defer ticker.Stop()
	for {
		select {
		case <-s.lifeCtx.Done():
			return
		case <-ticker.C:
		}
		s.mu.Lock()
		for _, p := range s.processes {
			if p.state == Ready && s.idleLocked(p) >= s.options.Idle && s.owner.Usage.CloseIfIdle(p.target, s.options.Idle) {
				s.counts.IdleStops++
				s.stopLocked(p, s.options.ReleaseTimeout)
			}
		}
		s.mu.Unlock()
	}
}

// idleLocked returns how long a ready process has been idle.
func (s *Supervisor) idleLocked(p *process) time.Duration {
	sinceReady := time.Since(p.readyAt)
	if idle, ok := s.owner.Usage.Idle(p.target); ok {
		return min(idle, sinceReady)
	}
	return sinceReady
}

// refusedPause is the pause after a process refused a connection. The process has probably exited,
// and the guard is about to report it. maxRefusals is the number of refusals after which Dial
// returns the error.
const (
	refusedPause = 10 * time.Millisecond
	maxRefusals  = 100
)

// Dial connects to the process of a target, starting it and waiting until it is ready if necessary.
// ended is closed when none of its processes is left.
func (s *Supervisor) Dial(ctx context.Context, target procpool.Target) (conn net.Conn, ended <-chan struct{}, err error) {
	for refusals := 0; ; {
		var p *process
		if p, err = s.await(ctx, target); err != nil {
			return nil, nil, err
		}
		dialer := net.Dialer{KeepAlive: 15 * time.Second}
		conn, err = dialer.DialContext(ctx, "tcp", p.addr.String())
		switch isReady := s.isReady(p); {
		case err == nil && isReady:
			return conn, p.ended, nil
		case err == nil: // another program may have taken the port
			_ = conn.Close()
			continue
		case !isReady:
			continue
		}
		if refusals++; refusals > maxRefusals || !errors.Is(err, syscall.ECONNREFUSED) {
			return nil, nil, err
		}
		select {
		case <-p.ended:
		case <-ctx.Done():
			return nil, nil, err
		case <-time.After(refusedPause):
		}
	}
}

// isReady reports whether a process is ready now.
func (s *Supervisor) isReady(p *process) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return p.state == Ready
}

// await returns the process of a target once it is ready, and starts it if necessary.
func (s *Supervisor) await(ctx context.Context, target procpool.Target) (*process, error) {
	for {
		p, err := s.processOf(target) //nolint:contextcheck // the process outlives the request that starts it
		if err != nil {
			return nil, err
		}
		select {
		case <-p.ready:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		s.mu.Lock()
		state, startError, isTemporary := p.state, p.startError, p.isTemporary
		s.mu.Unlock()
		if state == Ready {
			return p, nil
		}
		select { // the next process starts only after this one has exited
		case <-p.ended:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if isTemporary {
			return nil, startError
		}
	}
}

// processOf returns the process of a target, starting one if necessary.
func (s *Supervisor) processOf(target procpool.Target) (*process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	epoch, isOwned := s.owned[target.Shard]
	if !isOwned || s.closed {
		return nil, procpool.ErrNotOwned
	}
	if p := s.processes[target]; p != nil {
		return p, nil
	}
	if f := s.failures[target]; f != nil {
		if left := time.Until(f.until); left > 0 {
			return nil, &procpool.StartError{Reason: f.reason, RetryAfter: left}
		}
	}
	s.lastID++
	p := &process{id: s.lastID, target: target, epoch: epoch, state: Starting, ready: make(chan struct{}), ended: make(chan struct{}), spawned: make(chan struct{})}
	s.processes[target], s.byID[p.id] = p, p
	s.loops.Go(func() { s.run(p) })
	return p, nil
}

// run starts a process and waits until it is ready.
func (s *Supervisor) run(p *process) {
	ctx, cancel := context.WithTimeout(s.lifeCtx, s.options.StartTimeout)
	defer cancel()
	if err := s.takeSlot(ctx, p); err != nil {
		s.endUnstarted(p, err, true)
		return
	}
	spec, err := s.prepare(ctx, p)
	if err != nil {
		s.endUnstarted(p, err, false)
		return
	}
	s.mu.Lock()
	if p.state != Starting {
		s.mu.Unlock()
		s.endUnstarted(p, procpool.ErrNotOwned, true)
		return
	}
	p.inGuard, p.startedAt = true, time.Now()
	s.mu.Unlock()
	if !s.sendDeadline() { // the lease may be newer than the guard's deadline
		s.endUnstarted(p, procpool.ErrNotOwned, true)
		return
	}
	if err = s.guard.StartChild(p.id, spec); err != nil {
		s.endUnstarted(p, err, true)
		return
	}
	select {
	case <-p.spawned:
	case <-p.ended:
		return
	case <-ctx.Done():
	}
	err = s.awaitReady(ctx, p)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case p.state != Starting:
	case err != nil:
		p.startError = err
		s.stopFailedLocked(p)
	default:
		p.readyAt = time.Now()
		s.setStateLocked(p, Ready)
		line := s.describe(s.options.Log.Info(), p) //nolint:zerologlint // Msg sends it
		line.Str("addr", p.addr.String()).Dur("after", p.readyAt.Sub(p.startedAt)).Msg("app process ready")
	}
}

// describe adds the target and the process to a log line. The caller must hold s.mu.
func (s *Supervisor) describe(line *zerolog.Event, p *process) *zerolog.Event {
	line.Uint32("shard", uint32(p.target.Shard)).Int("pid", p.pid)
	if p.target.Key == "" {
		return line
	}
	if s.options.ShowKeys {
		line.Str("key", p.target.Key)
	}
	return line.Str("key_hash", s.owner.HashKey(p.target.Key))
}

// setStateLocked changes the state of a process.
func (s *Supervisor) setStateLocked(p *process, state State) {
	if p.state == Starting {
		close(p.ready)
	}
	p.state = state
	if state == Ended {
		close(p.ended)
	}
}

// takeSlot waits until fewer than Options.Max processes exist. At the limit, it stops the least
// recently used process.
func (s *Supervisor) takeSlot(ctx context.Context, p *process) error {
	for {
		s.mu.Lock()
		if s.slots < s.options.Max {
			s.slots++
			p.hasSlot = true
			s.mu.Unlock()
			return nil
		}
		victim := s.victimLocked()
		if victim == nil {
			s.counts.Refused++
			s.mu.Unlock()
			return procpool.ErrLimit
		}
		s.mu.Unlock()
		select {
		case <-victim.ended:
		case <-ctx.Done():
			return procpool.ErrLimit
		}
	}
}

// victimLocked returns a process that is stopping, or stops the least recently used one. It returns
// nil if all processes are in use.
func (s *Supervisor) victimLocked() *process {
	var unused []*process
	for _, p := range s.processes {
		switch {
		case p.state == Stopping && p.hasSlot:
			return p
		case p.state == Ready && s.options.Per == PerKey && s.idleLocked(p) > 0:
			unused = append(unused, p)
		}
	}
	slices.SortFunc(unused, func(a, b *process) int { return cmp.Compare(s.idleLocked(b), s.idleLocked(a)) })
	for _, p := range unused {
		if s.owner.Usage.CloseIfIdle(p.target, 0) {
			s.counts.IdleStops++
			s.stopLocked(p, s.options.ReleaseTimeout)
			return p
		}
	}
	return nil
}

// prepare creates the directory of a process and chooses its address.
func (s *Supervisor) prepare(ctx context.Context, p *process) (*procguard.Spec, error) {
	dir, err := makeDirectory(s.options.Dir, p.target)
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return nil, err
	}
	addr, err := freeAddress(ctx, s.isPortUsed)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	p.dir, p.addr = dir, addr
	s.mu.Unlock()
	port := strconv.Itoa(int(addr.Port()))
	spec := &procguard.Spec{Args: s.options.Command.Args(map[execcommand.Placeholder][]byte{
		execcommand.PlaceholderAddr: []byte(addr.String()), execcommand.PlaceholderPort: []byte(port), execcommand.PlaceholderDir: []byte(dir),
		execcommand.PlaceholderKey: []byte(p.target.Key), execcommand.PlaceholderShard: strconv.AppendInt(nil, int64(p.target.Shard), 10),
	})}
	for _, variable := range s.environ {
		spec.Env = append(spec.Env, []byte(variable))
	}
	for _, variable := range childVariables(p.target, p.epoch, s.options.Node, addr.String(), port, dir) {
		spec.Env = append(spec.Env, []byte(variable))
	}
	return spec, nil
}

// isPortUsed reports whether a process uses the port.
func (s *Supervisor) isPortUsed(port uint16) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.processes {
		if p.addr.Port() == port {
			return true
		}
	}
	return false
}

// endUnstarted ends a process that the guard has not started.
func (s *Supervisor) endUnstarted(p *process, reason error, isTemporary bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.state == Ended {
		return
	}
	p.startError, p.isTemporary = reason, isTemporary
	s.removeLocked(p, reason.Error())
}

// stopLocked sends SIGTERM to a process, and SIGKILL after grace. Zero means SIGKILL now.
func (s *Supervisor) stopLocked(p *process, grace time.Duration) {
	killAt := time.Now().Add(grace)
	p.isStopWish = true
	switch p.state {
	case Starting, Ready:
		s.setStateLocked(p, Stopping)
	case Stopping:
		if !killAt.Before(p.killAt) {
			return
		}
	case Ended:
		return
	}
	p.killAt = killAt
	if p.inGuard {
		_ = s.guard.StopChild(p.id, grace) // onGuardEnded reports a guard that has ended
	}
}

// stopFailedLocked kills a process that did not become ready.
func (s *Supervisor) stopFailedLocked(p *process) {
	s.stopLocked(p, 0)
	p.isStopWish = false // its end is a failure
}

// removeLocked makes a process Ended. Unless the node stopped it, this counts as a failure of its
// target.
func (s *Supervisor) removeLocked(p *process, status string) {
	if p.state == Ended {
		return
	}
	if p.hasSlot {
		s.slots--
	}
	delete(s.byID, p.id)
	if s.processes[p.target] == p {
		delete(s.processes, p.target)
	}
	s.setStateLocked(p, Ended)
	s.owner.Usage.Close(p.target)
	switch {
	case p.isStopWish || p.isTemporary || s.closed:
	case s.isPastDeadline():
		p.isTemporary, p.startError = true, procpool.ErrNotOwned
	default:
		s.recordFailureLocked(p, status)
	}
	if s.options.Per == PerShard && s.owned[p.target.Shard] == p.epoch && !p.isStopWish {
		s.restartLocked(p.target)
	}
}

// isPastDeadline reports whether the node has been without a lease for so long that processes get
// SIGTERM.
func (s *Supervisor) isPastDeadline() bool {
	term, _, ok := s.owner.Deadline()
	return !ok || procguard.Boottime() >= term
}

// recordFailureLocked counts a failure of a target.
func (s *Supervisor) recordFailureLocked(p *process, status string) {
	reason := status
	if p.startError != nil {
		reason = p.startError.Error()
	}
	f := s.failures[p.target]
	if f == nil {
		s.makeRoomLocked()
		f = &failure{}
		s.failures[p.target] = f
	}
	if wasProven := !p.readyAt.IsZero() && time.Since(p.readyAt) >= provenAfter; wasProven {
		f.count = 0
	}
	f.count++
	f.reason, f.until = reason, time.Now().Add(pauseAfter(f.count))
	s.counts.Failed++
	line := s.describe(s.options.Log.Warn(), p) //nolint:zerologlint // Msg sends it
	line.Str("reason", reason).Int("failures", f.count).Dur("pause", pauseAfter(f.count)).Msg("app process failed")
	if isRepetition := f.count&(f.count-1) != 0; isRepetition { // report the failures 1, 2, 4, 8 and so on
		return
	}
	s.owner.OnFailure(Failure{Shard: p.target.Shard, Key: p.target.Key, Count: f.count, Reason: reason})
}

// makeRoomLocked drops failures if too many are remembered: those whose pause is over, or otherwise
// any.
func (s *Supervisor) makeRoomLocked() {
	if len(s.failures) < maxFailures {
		return
	}
	now := time.Now()
	for target, f := range s.failures {
		if f.until.Before(now) {
			delete(s.failures, target)
		}
	}
	for target := range s.failures {
		if len(s.failures) < maxFailures {
			return
		}
		delete(s.failures, target)
	}
}

// restartLocked starts the process of a shard again after its pause, while the node owns the shard.
func (s *Supervisor) restartLocked(target procpool.Target) {
	pause := minPause
	if f := s.failures[target]; f != nil {
		pause = max(pause, time.Until(f.until))
	}
	timer := time.AfterFunc(pause, func() { _, _ = s.await(s.lifeCtx, target) }) // a failure leads to the next restart
	context.AfterFunc(s.lifeCtx, func() { timer.Stop() })
}

// onStarted is called by the guard.
func (s *Supervisor) onStarted(id uint64, pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.byID[id]
	if p == nil {
		return
	}
	s.counts.Started++
	p.pid = pid
	close(p.spawned)
}

// onStartFailed is called by the guard.
func (s *Supervisor) onStartFailed(id uint64, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.byID[id]; p != nil {
		p.startError = errors.New(reason)
		s.removeLocked(p, reason)
	}
}

// onEnded is called by the guard.
func (s *Supervisor) onEnded(id uint64, status string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.byID[id]
	if p == nil {
		return
	}
	if p.state == Stopping && !p.killAt.IsZero() && !time.Now().Before(p.killAt) {
		s.counts.Killed++
	}
	s.removeLocked(p, "the process has ended: "+status)
}

// onGuardEnded is called once when the guard has ended.
func (s *Supervisor) onGuardEnded(err error) {
	s.mu.Lock()
	wasClosed := s.closed
	for _, p := range s.byID {
		p.isStopWish = true
		s.removeLocked(p, "the guard has ended")
	}
	s.closed = true
	s.mu.Unlock()
	if !wasClosed {
		s.owner.Fail(err)
	}
}
