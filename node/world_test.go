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
	"shardway/e2e/kit/history"
	"shardway/internal/clock"
	"shardway/internal/simnet"
	"shardway/node"
	"shardway/node/disk"
	"shardway/proxy"
	"shardway/proxy/route"
	"shardway/queue"
	"shardway/shardmap"
)

const (
	shards    = 96
	queueWait = 10 * time.Second
)

// world is a cluster in a bubble: real Serf, real Raft, virtual time.
type world struct {
	t     *testing.T
	net   *simnet.Net
	tune  func(*node.Options)
	names []string
	all   map[string]*process

	writes  time.Duration // what each one to a new node's disk takes, from the first on
	witness *witness      // nil: nobody sends requests
	rests   bool          // its processes know that they use next to nothing of a processor
	moment  func()        // what until does until
	newest  *shardmap.Map // the newest committed map seen, nil at first
	maps    int           // how many were seen, and how many shards they moved
	moved   int
	seen    map[*shardmap.Map]bool      // every map seen committed
	digests map[shardmap.Epoch][32]byte // and its digest
	epochs  map[shardmap.Shard]uint64   // the highest ownership epoch that admitted
	owners  map[shardmap.Shard]string   // who admitted under it
	views   []view                      // what the answers of the last look at all shards followed from
	looked  time.Time                   // when that was
}

// view is what a node's answers about admission follow from.
type view struct {
	node   *node.Node
	table  *route.Table // a new one at each change
	leased bool
	frozen bool // it answers nothing
}

// process is one node, from its first start on.
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
	stale  bool       // its disk is an older image: it ends by itself
	clock  *hostClock // nil: the bubble's
	frozen bool       // nothing of it that looks at a clock may be asked
	asked  bool       // to end
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

// close ends everything inside the bubble.
func (w *world) close() {
	for _, n := range w.names {
		w.all[n].kill()
	}
	w.net.Close()
	time.Sleep(time.Minute) // virtual: timers of the libraries
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

// start starts a new node that joins the first one.
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
	// The first node of a test founds the cluster; started again, it joins.
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

// stop is SIGTERM. A process that stands still hears of it as it goes on.
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

// leaves is what is done to a process that was asked to end.
func (p *process) leaves() history.FaultKind {
	if p.started() {
		return history.Terminated
	}
	return history.Killed // nobody has taken what waits at its listener
}

// resting is the clock of a process that uses next to nothing of a processor.
type resting struct{ clock.Clock }

var _ clock.CPUTimer = resting{}

func (resting) CPUTime() (time.Duration, bool) { return 0, true }

// closing is a listener that tells that it is closed.
type closing struct {
	net.Listener
	tell func()
}

func (c closing) Close() error {
	c.tell()
	return c.Listener.Close()
}

// kill is kill -9.
func (p *process) kill() {
	select {
	case <-p.done:
		return
	default:
	}
	p.killed = true
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

// freeze is SIGSTOP, for a process with a clock of its own.
func (p *process) freeze() {
	p.frozen = true
	if p.w.witness != nil && !p.ended() {
		p.w.witness.fails(p.name, history.Paused)
	}
	p.host.Freeze()
	p.clock.freeze()
}

// wakes is how long a process that goes on takes until it has heard of what it was
// sent meanwhile. What waits at its listeners is taken by then, as by real ones, which
// take it as they close.
const wakes = time.Millisecond

// thaw is SIGCONT.
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

// started reports that the node serves; it may be asked for its status then.
func (p *process) started() bool {
	select {
	case <-p.node.Started():
		return true
	default:
		return false
	}
}

// ended reports that the process has ended, by itself or not.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// wipe empties a dead node's data directory.
func (p *process) wipe() { p.mem = disk.NewMemory() }

// restart starts a killed or stopped node again, with its disk.
func (p *process) restart() {
	p.w.note(p)
	p.host = p.host.Restart()
	p.run()
}

// terminate is SIGTERM; it returns when the process has ended.
func (p *process) terminate() {
	p.stop()
	<-p.done
	p.host.Crash()
}

// running returns the processes that run.
func (w *world) running() []*process {
	var out []*process
	for _, n := range w.names {
		if p := w.all[n]; !p.ended() {
			out = append(out, p)
		}
	}
	return out
}

// until waits, in virtual time, for a condition.
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

// describe says what a process that runs is at, for whoever looks for what is missing.
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

// check looks for what must never be: an epoch that names two maps, two nodes that
// admit requests for one shard, an ownership epoch that falls or has two owners. What
// nodes admit while requests run, a witness writes down.
func (w *world) check() {
	w.t.Helper()
	for _, n := range w.names { // also what one committed that has ended since
		w.note(w.all[n])
	}
	running := w.running()
	if w.changed(running) {
		w.admitted(running)
	}
}

// note notes the map that a process goes by, or went by as it ended.
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

// lookAgain is after how long all shards are asked for though nothing has changed.
const lookAgain = 50 * time.Millisecond

// changed reports that nodes may admit something else than at the last look. Most
// looks find nothing new, and to ask for every shard each time would be half of what
// these tests cost.
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

// admitted asks the running nodes for every shard.
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
			if w.witness != nil { // all of it is judged together
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

// settled reports that these nodes, and no others, serve: one committed map on
// all of them, nothing open, everybody leased.
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
