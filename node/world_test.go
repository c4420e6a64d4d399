package node_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/diagnosis"
	"shardway/e2e/kit/history"
	"shardway/internal/clock"
	"shardway/internal/simnet"
	"shardway/node"
	"shardway/node/disk"
	"shardway/node/findings"
	"shardway/proxy"
	"shardway/proxy/route"
	"shardway/queue"
	"shardway/shardmap"
)

const (
	shards    = 96
	queueWait = 10 * time.Second
)

// world is a cluster in a synctest bubble, with real Serf, real Raft and virtual time.
type world struct {
	t     *testing.T
	net   *simnet.Net
	tune  func(*node.Options)
	names []string
	all   map[string]*process

	writes  time.Duration // delay of each write to a new node's disk, from the first write on
	witness *witness      // nil means that no requests are sent
	rests   bool          // the processes see that they use almost no processor time
	forgery *forgery      // contradictions that nodes may report; nil means none
	moment  func()        // what until runs between two checks of its condition
	newest  *shardmap.Map // the newest committed map seen; nil at first
	maps    int           // how many maps were seen, and how many shards they moved
	moved   int
	seen    map[*shardmap.Map]bool      // every map that was seen as committed
	digests map[shardmap.Epoch][32]byte // and its digest
	epochs  map[shardmap.Shard]uint64   // the highest ownership epoch under which a shard was admitted
	owners  map[shardmap.Shard]string   // the node that admitted the shard under that epoch
	views   []view                      // the inputs of the last look at all shards
	looked  time.Time                   // the time of that look
}

// view contains the inputs that determine which requests a node admits.
type view struct {
	node   *node.Node
	table  *route.Table // replaced at each change
	leased bool
	frozen bool // it does not respond
}

// process is one node, with all its starts.
type process struct {
	w    *world
	name string
	host *simnet.Host
	mem  *disk.Memory
	log  logGate
	disk diskGate
	node *node.Node
	end  context.CancelFunc // see stop
	done chan struct{}
	err  error

	killed bool
	stale  bool       // its disk is an older image, so it ends on its own
	clock  *hostClock // nil means the clock of the bubble
	frozen bool       // no function of the node that reads its clock may be called
	asked  bool       // it was asked to end
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, rests: true, seen: map[*shardmap.Map]bool{}, digests: map[shardmap.Epoch][32]byte{}, epochs: map[shardmap.Shard]uint64{}, owners: map[shardmap.Shard]string{},
		net: simnet.New(simnet.Config{Seed: 1, Link: simnet.Link{Latency: 200 * time.Microsecond}}), all: map[string]*process{},
	}
	w.moment = func() {
		w.check()
		time.Sleep(5 * time.Millisecond)
	}
	t.Cleanup(w.close)
	return w
}

// close ends all processes and the network inside the bubble.
func (w *world) close() {
	for _, n := range w.names {
		w.wantNoContradiction(w.all[n])
		w.all[n].kill()
	}
	w.net.Close()
	time.Sleep(time.Minute) // virtual time, for the timers of the libraries
}

func (w *world) log(name string) zerolog.Logger {
	level := zerolog.Disabled
	if os.Getenv("SHARDWAY_TEST_LOG") != "" {
		level = zerolog.DebugLevel
	}
	return zerolog.New(zerolog.ConsoleWriter{Out: testWriter{w.t}, NoColor: true, TimeFormat: "05.000"}).Level(level).With().Timestamp().Str("n", name).Logger()
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(b []byte) (int, error) { _, err := os.Stderr.Write(b); return len(b), err }

// start starts a new node, which joins the first one.
func (w *world) start(name string) {
	w.t.Helper()
	p := &process{w: w, name: name, host: w.net.Host(name), mem: disk.NewMemory()}
	w.all[name] = p
	w.names = append(w.names, name)
	if w.witness != nil {
		hurt := func(k history.FaultKind) func() { return w.witness.hurt(k, name) }
		p.log.ills = ills{hurt, map[history.FaultKind]func(){}}
		p.disk.ills = ills{hurt, map[history.FaultKind]func(){}}
	}
	p.disk.slow(w.writes)
	p.run()
}

// run starts the process on its host.
func (p *process) run() {
	p.w.t.Helper()
	must := func(err error) {
		if err != nil {
			p.w.t.Fatalf("start %s: %v", p.name, err)
		}
	}
	p.killed, p.asked = false, false
	p.mem.SetStoreFault(p.disk.meet)
	dir, err := p.mem.Open(p.name)
	must(err)
	app, err := p.host.Listen(":8080")
	must(err)
	peers, err := p.host.Listen(":7947")
	must(err)
	gossip, err := p.host.Transport(7946)
	must(err)
	// The first node of a test founds the cluster; when it is started again, it joins.
	var join []string
	for _, other := range p.w.names {
		if other != p.name {
			join = append(join, p.w.all[other].host.Addr(7946))
		}
	}
	o := node.Options{
		Dir: dir, Version: "test", Shards: shards, Weight: 1, MaxVoters: maxVoters, BootstrapExpect: 1, Join: join,
		Endpoints: map[string]string{"http": p.host.Addr(8080), "peer": p.host.Addr(7947)},
		Timing:    ack.DefaultTiming(), Pace: ack.DefaultPace(),
		App: app, Peer: peers, GossipAdvertise: p.host.Addr(7946), GossipTransport: gossip, PeerDial: p.host.Dial,
		Queue: queue.Options{Wait: queueWait}, Proxy: proxy.Options{DialUpstream: func(ctx context.Context) (net.Conn, error) { return p.host.Dial(ctx, p.host.Addr(9000)) }},
		CheckApp: func(context.Context) error { return nil },
		Clock:    clock.Virtual(), Log: p.w.log(p.name),
	}
	if p.w.tune != nil {
		p.w.tune(&o)
	}
	if p.w.rests {
		o.Clock = resting{o.Clock}
	}
	if seen := p.w.witness; seen != nil {
		o.Peer = closing{o.Peer, func() { seen.closes(p.name) }}
	}
	p.node, err = node.New(o)
	must(err)
	p.node.HoldLog(p.log.wait)
	if p.w.forgery != nil {
		p.node.ReplaceMonitor(func(o *findings.Options) { p.w.forgery.install(p.name, o) })
	}
	ctx, stop := context.WithCancel(context.Background())
	p.end, p.done = stop, make(chan struct{})
	n, seen := p.node, p.w.witness
	if seen != nil {
		seen.runs(p.name)
	}
	go func(done chan struct{}) { // ends with stop or Kill
		defer close(done)
		p.err = n.Run(ctx)
		if seen != nil {
			seen.ended(p.name, p.err != nil)
		}
	}(p.done)
}

// stop sends the process SIGTERM. A frozen process receives it when it continues.
func (p *process) stop() {
	p.asked = true
	if p.frozen {
		return
	}
	if p.w.witness != nil && !p.ended() {
		p.w.witness.fails(p.name, p.leaves())
	}
	p.end()
}

// leaves returns the fault that the witness records for a process that was asked to end.
func (p *process) leaves() history.FaultKind {
	if p.started() {
		return history.Terminated
	}
	return history.Killed // clients that wait at its listener have not been accepted
}

// resting is the clock of a process that uses almost no processor time.
type resting struct{ clock.Clock }

var _ clock.CPUTimer = resting{}

func (resting) CPUTime() (time.Duration, bool) { return 0, true }

// closing is a listener that reports its Close.
type closing struct {
	net.Listener
	tell func()
}

func (c closing) Close() error {
	c.tell()
	return c.Listener.Close()
}

// kill ends the process as kill -9 does.
func (p *process) kill() {
	select {
	case <-p.done:
		return
	default:
	}
	p.killed = true
	p.w.wantNoContradiction(p)
	if p.w.witness != nil {
		p.w.witness.fails(p.name, history.Killed)
	}
	p.host.Crash()
	_ = p.mem.Crash()
	p.thaw()
	p.disk.well()
	p.log.open()
	p.node.Kill()
	<-p.done
	p.stop()
}

// freeze stops the process as SIGSTOP does. The process must have its own clock.
func (p *process) freeze() {
	p.frozen = true
	if p.w.witness != nil && !p.ended() {
		p.w.witness.fails(p.name, history.Paused)
	}
	p.host.Freeze()
	p.clock.freeze()
}

// wakes is the time that a continued process needs to receive what was sent in the meantime. By then it accepts the connections that wait at its
// listeners, as a real process does when it closes them.
const wakes = time.Millisecond

// thaw continues the process as SIGCONT does.
func (p *process) thaw() {
	if !p.frozen {
		return
	}
	p.frozen = false
	switch {
	case p.killed || p.ended():
	case p.asked:
		if p.w.witness != nil {
			p.w.witness.fails(p.name, p.leaves())
		}
		time.AfterFunc(wakes, p.end)
	case p.w.witness != nil:
		p.w.witness.runs(p.name)
	}
	p.clock.thaw()
	p.host.Thaw()
}

// started reports whether the node serves. Its status is available from then on.
func (p *process) started() bool {
	select {
	case <-p.node.Started():
		return true
	default:
		return false
	}
}

// ended reports whether the process has ended for any reason.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// wipe empties the data directory of a stopped node.
func (p *process) wipe() { p.mem = disk.NewMemory() }

// restart starts a killed or stopped node again, with its disk.
func (p *process) restart() {
	p.w.note(p)
	p.host = p.host.Restart()
	p.run()
}

// terminate sends SIGTERM, and returns when the process has ended.
func (p *process) terminate() {
	p.stop()
	<-p.done
	p.host.Crash()
}

// running returns the running processes.
func (w *world) running() []*process {
	var out []*process
	for _, n := range w.names {
		if p := w.all[n]; !p.ended() {
			out = append(out, p)
		}
	}
	return out
}

// until waits in virtual time until cond is true. It fails the test after a time limit.
func (w *world) until(what string, cond func() bool) {
	w.t.Helper()
	w.within(2*time.Minute, what, cond)
}

func (w *world) within(limit time.Duration, what string, cond func() bool) {
	w.t.Helper()
	deadline := time.Now().Add(limit)
	for !cond() {
		w.moment()
		if time.Now().After(deadline) {
			for _, p := range w.running() {
				if p.frozen {
					continue
				}
				w.t.Log(p.describe())
			}
			w.t.Fatalf("never happened: %s", what)
		}
	}
}

// describe returns the state of a running process for failure messages.
func (p *process) describe() string {
	s := p.node.State()
	text := fmt.Sprintf("%s: leads %v leased %v committed %d last %d members %v", p.name, p.node.Leads(), p.node.Leased(), s.Committed().Epoch(), s.Proposed().Epoch(), s.Committed().Members())
	if !p.started() {
		return text + ", not started"
	}
	var nodes []string
	for _, n := range p.node.API().Status().Nodes {
		nodes = append(nodes, fmt.Sprintf("%s %s voter %v", n.ID, n.State, n.Voter))
	}
	return fmt.Sprintf("%s, ready %v, routes %v, sees %v", text, p.node.API().Ready(), p.node.Routes(), nodes)
}

// check checks the invariants: an epoch has one map, no two nodes admit requests of one shard, and an ownership epoch never decreases and
// has one owner. A witness records what nodes admit while requests run.
func (w *world) check() {
	w.t.Helper()
	for _, n := range w.names { // also a map that was committed by a process that has ended since
		w.note(w.all[n])
	}
	running := w.running()
	if w.changed(running) {
		w.admitted(running)
	}
}

// wantNoContradiction fails the test if a node reports a contradiction, unless the test forges them. Nodes report
// most contradictions for an hour, so the check at the end of a process is enough. They report owners and leaders
// outside the cluster only while the condition lasts.
func (w *world) wantNoContradiction(p *process) {
	w.t.Helper()
	if w.forgery != nil || p.node == nil {
		return
	}
	contradictions := []diagnosis.Code{diagnosis.TwoLeaders, diagnosis.TwoOwners, diagnosis.LeaseTooLong, diagnosis.OwnerNotMember, diagnosis.LeaderNotMember}
	for _, f := range p.node.Findings() {
		if slices.Contains(contradictions, f.Code) {
			w.t.Errorf("node %s reports: %s", p.name, f)
		}
	}
}

// note records the map that a process uses, or used when it ended.
func (w *world) note(p *process) {
	w.t.Helper()
	c := p.node.State().Committed()
	if c.Epoch() == 0 || w.seen[c] {
		return
	}
	w.seen[c] = true
	if d, ok := w.digests[c.Epoch()]; ok && d != c.Digest() {
		w.t.Fatalf("epoch %d names two maps", c.Epoch())
	}
	w.digests[c.Epoch()] = c.Digest()
	if w.witness != nil {
		w.witness.committed(c)
	}
	if w.newest == nil || c.Epoch() > w.newest.Epoch() {
		if w.maps++; w.newest != nil {
			w.moved += len(shardmap.Diff(w.newest, c))
		}
		w.newest = c
	}
}

// lookAgain is the time after which all shards are checked even without a change.
const lookAgain = 50 * time.Millisecond

// changed reports whether nodes may admit other requests than at the last look. Most looks find no change, and a check of every shard each
// time would be half of the cost of these tests.
func (w *world) changed(running []*process) bool {
	var views []view
	for _, p := range running {
		v := view{node: p.node, frozen: p.frozen}
		if !p.frozen {
			v.table, v.leased = p.node.Table(), p.node.Leased()
		}
		views = append(views, v)
	}
	if slices.Equal(views, w.views) && time.Since(w.looked) < lookAgain {
		if w.witness != nil {
			w.witness.same()
		}
		return false
	}
	w.views, w.looked = views, time.Now()
	return true
}

// admitted checks every shard at the running nodes.
func (w *world) admitted(running []*process) {
	w.t.Helper()
	if w.witness != nil {
		w.witness.look()
	}
	for s := range shardmap.Shard(shards) {
		admits := ""
		for _, p := range running {
			if p.frozen {
				continue
			}
			epoch, ok := p.node.Admits(s)
			if !ok {
				continue
			}
			if w.witness != nil { // the admissions are judged together
				w.witness.admits(p.name, s, epoch)
				continue
			}
			if admits != "" {
				w.t.Fatalf("%s and %s both admit requests for shard %d", admits, p.name, s)
			}
			admits = p.name
			if epoch < w.epochs[s] || epoch == w.epochs[s] && w.owners[s] != p.name {
				w.t.Fatalf("%s admits shard %d under ownership epoch %d after %s did under %d", p.name, s, epoch, w.owners[s], w.epochs[s])
			}
			w.epochs[s], w.owners[s] = epoch, p.name
		}
	}
}

// settled reports whether exactly these nodes serve: all have one committed map, no proposal is open, and all have a lease.
func (w *world) settled(names ...string) bool {
	var epoch shardmap.Epoch
	for _, name := range names {
		p := w.all[name]
		s := p.node.State()
		if epoch == 0 {
			epoch = s.Committed().Epoch()
		}
		if p.frozen || epoch == 0 || s.Committed().Epoch() != epoch || s.HasOpenProposal() || !p.node.Leased() || len(s.Committed().Members()) != len(names) || !s.Committed().IsMember(shardmap.NodeID(name)) {
			return false
		}
	}
	return true
}

func (w *world) untilSettled(names ...string) {
	w.t.Helper()
	w.until(fmt.Sprintf("%v serve", names), func() bool { return w.settled(names...) })
}

func (w *world) leader() *process {
	for _, p := range w.running() {
		if p.node.Leads() {
			return p
		}
	}
	return nil
}
