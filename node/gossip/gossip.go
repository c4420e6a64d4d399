package gossip

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/serf/serf"
	"github.com/rs/zerolog"

	"shardway/endpoints"
)

// Gossip is this node's membership.
type Gossip struct {
	o    Options
	log  zerolog.Logger
	gate *gate
	tags atomic.Pointer[Tags]
	used atomic.Pointer[tagsUsed]

	serf *serf.Serf // set by Listen
	self netip.AddrPort
	// listens is where the gossip port is bound; not valid with Options.Transport.
	listens netip.AddrPort
	events  chan serf.Event
	ring    *memberlist.Keyring // nil: plain text
	door    *doorkeeper         // set by Listen
	memory  *memory
	record  *record // set by Listen
	former  []sight // who was there when the last one with its file ended; set by Listen
	read    readings
	claims  *claims

	identity identity

	changed chan struct{} // 1: hint
	retag   chan struct{} // 1: hint
	refused chan *RefusedError
	joinErr atomic.Pointer[error]
	tried   atomic.Pointer[[]Attempt]
	leaving sync.WaitGroup // Leave calls under way, also those that nobody waits for
	left    chan struct{}  // closed by the first Leave: nothing is joined any more
	leave   sync.Once
	warned  atomic.Int64 // when a refusal was last logged, UnixNano
}

// New checks the options. It opens nothing.
func New(o Options) (*Gossip, error) {
	o.defaults()
	if o.Name == "" {
		return nil, errors.New("gossip: member without a name")
	}
	if _, err := o.Tags.grown().encode(); err != nil {
		return nil, err
	}
	g := &Gossip{
		o:       o,
		log:     o.Log,
		events:  make(chan serf.Event, 1024), // Serf holds its lock while it sends: a full channel would stop membership itself
		changed: make(chan struct{}, 1),
		retag:   make(chan struct{}, 1),
		refused: make(chan *RefusedError, 1),
		memory:  &memory{keep: o.Keep},
		claims:  newClaims(o.Name),
		left:    make(chan struct{}),
	}
	if len(o.Keys) > 0 {
		var err error
		if g.ring, err = memberlist.NewKeyring(o.Keys, o.Keys[0]); err != nil {
			return nil, fmt.Errorf("gossip: keys: %w", err)
		}
	}
	tags := o.Tags
	g.tags.Store(&tags)
	g.identity.undecided.Store(len(o.Join) > 0 && o.Tags.Node != "")
	g.gate = &gate{self: o.Name, mine: &g.tags, met: &g.identity, told: g.hearRefusal, heard: g.claims.hear}
	return g, nil
}

// Listen opens the gossip port and starts Serf. Run must follow; it ends what
// Listen started.
func (g *Gossip) Listen(ctx context.Context) error {
	conf, err := g.config(ctx)
	if err != nil {
		if isTaken(err) {
			return fmt.Errorf("gossip: %s is taken, perhaps by another node: stop it, or name another address with --gossip: %w", g.o.Bind, err)
		}
		return err
	}
	if g.record, err = openRecord(g.o.SnapshotPath); err != nil {
		g.log.Warn().Err(err).Str("file", g.o.SnapshotPath).Msg("list of known members not read")
	}
	g.former = g.record.alive()
	s, err := serf.Create(conf)
	if err != nil {
		return errors.Join(fmt.Errorf("gossip: listen on %s: %w", g.o.Bind, err), g.door.Shutdown())
	}
	g.serf = s
	witness(conf.MemberlistConfig.Delegate, g.record.clock)
	unschedule(s.Memberlist()) // the probes: they have no setting for never
	local := s.Memberlist().LocalNode()
	ip, _ := netip.AddrFromSlice(local.Addr)
	g.self = netip.AddrPortFrom(ip.Unmap(), local.Port)
	return nil
}

// Addr returns the address that the others use, once Listen was called.
func (g *Gossip) Addr() netip.AddrPort { return g.self }

// Run keeps this node among the others until ctx ends, then shuts Serf down.
// It returns when everything that it and Listen started has been told to end;
// timers of the libraries may sleep on for seconds.
func (g *Gossip) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(g.drain)
	wg.Go(func() { g.retagging(ctx) })
	wg.Go(func() { g.joiningUntilLeft(ctx) })
	go g.rejoin(ctx, g.former) // not waited for, as probes: who does not answer is given seconds
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		g.keeping()
	}()
	stopTicks := g.tick(context.WithoutCancel(ctx))
	<-ctx.Done()
	g.leaving.Wait() // memberlist panics when it is shut down while it leaves, and the last ticks say goodbye
	stopTicks()
	err := g.serf.Shutdown()
	wg.Wait()
	select {
	case <-kept:
	case <-time.After(keptWithin):
		g.log.Warn().Str("file", g.record.path).Msg("known members not written, disk stalled")
	}
	if err != nil {
		return fmt.Errorf("gossip: shutdown: %w", err)
	}
	return nil
}

// drain takes every event: one that is left blocks membership itself.
func (g *Gossip) drain() {
	for {
		select {
		case e := <-g.events:
			g.memory.learn(e)
			g.claims.learn(e)
			g.record.learn(e)
			hint(g.changed)
		case <-g.serf.ShutdownCh():
			return
		}
	}
}

func hint(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Changed gives a hint that Members may have changed.
func (g *Gossip) Changed() <-chan struct{} { return g.changed }

// Streams tells what the streams that others opened amount to; nothing before
// Listen. It must not be called while Listen runs.
func (g *Gossip) Streams() StreamStats {
	if g.door == nil {
		return StreamStats{}
	}
	return g.door.stats()
}

// Members returns every member that gossip remembers, sorted by id.
func (g *Gossip) Members() []Member {
	return g.read.members(slices.DeleteFunc(g.serf.Members(), g.memory.hides))
}

// Refused reports that this node and the one that it tried to join do not belong
// together, as long as it has seen no other node since its start; and at any time
// that this node's cluster is superseded. One is kept until it is taken.
func (g *Gossip) Refused() <-chan *RefusedError { return g.refused }

// Alone returns nil if another node is there, else why none was reached yet.
func (g *Gossip) Alone() error {
	if !g.alone() {
		return nil
	}
	if p := g.joinErr.Load(); p != nil {
		return *p
	}
	return errors.New("gossip: no other node seen yet")
}

// tagsUsed is how many bytes tags take.
type tagsUsed struct {
	of    *Tags
	bytes int
}

// TagsUsed returns how many bytes the tags of this member take, and how many they may.
func (g *Gossip) TagsUsed() (used, most int) {
	t := g.tags.Load()
	if u := g.used.Load(); u != nil && u.of == t {
		return u.bytes, endpoints.MaxTags
	}
	used = endpoints.MaxTags
	if m, err := t.encode(); err == nil {
		used = endpoints.EncodedLen(m)
	}
	g.used.Store(&tagsUsed{t, used})
	return used, endpoints.MaxTags
}

// Tried returns what became of each address of Join in the last round; nothing before
// the first, and once another node is there.
func (g *Gossip) Tried() []Attempt {
	if p := g.tried.Load(); p != nil {
		return *p
	}
	return nil
}

func (g *Gossip) alone() bool { return g.nodes() <= 1 }

// nodes counts those that are alive, with this one, whatever it is.
func (g *Gossip) nodes() int {
	n := 1
	for _, m := range g.serf.Members() {
		if m.Name != g.o.Name && m.Status == serf.StatusAlive && m.Tags[tagNode] != "" {
			n++
		}
	}
	return n
}

// SetTags changes what the node says about itself. It is checked by the new
// values at once; Run tells the others.
func (g *Gossip) SetTags(t Tags) error {
	if _, err := t.encode(); err != nil {
		return err
	}
	g.tags.Store(&t)
	hint(g.retag)
	return nil
}

// retagging tells the others the newest tags. Only this goroutine calls Serf's
// SetTags, which is not made for several.
func (g *Gossip) retagging(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.retag:
		}
		m, err := g.announced().encode()
		if err == nil {
			err = g.serf.SetTags(m)
		}
		if err != nil && ctx.Err() == nil {
			// The tags are set; what failed is the first telling. Push and pull go on.
			g.log.Debug().Err(err).Msg("gossip tags not announced yet")
		}
		hint(g.changed)
	}
}

// Leave says goodbye to the others, so that they see this node as left and not
// as failed. It may be followed only by the end of Run.
func (g *Gossip) Leave(ctx context.Context) error {
	g.leave.Do(func() { close(g.left) })
	g.record.leave()
	done := make(chan error, 1)
	g.leaving.Go(func() { done <- g.serf.Leave() }) // Ends by Serf's own timeouts, about 2.5 s.
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("gossip: leave: %w", err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("gossip: leave: %w", ctx.Err())
	}
}

// Forget has this node show a member no more that has left or failed, or that is seen to
// have within a minute. Of one that is alive it changes nothing. The others are to be told
// as well: gossip does not spread it.
func (g *Gossip) Forget(id string) { g.memory.drop(id) }

// report keeps a refusal for Refused.
func (g *Gossip) report(r *RefusedError) {
	select {
	case g.refused <- r:
	default: // One is enough to stop.
	}
}

// hearRefusal is told of each refusal, whoever began to talk.
func (g *Gossip) hearRefusal(e *RefusedError) {
	if e.Superseded {
		g.report(e)
	}
	g.logRefusal(e)
}

// logRefusal logs at most one refusal in ten seconds: an intruder is asked about
// with every packet.
func (g *Gossip) logRefusal(e *RefusedError) {
	now := time.Now().UnixNano()
	last := g.warned.Load()
	if now-last < int64(10*time.Second) || !g.warned.CompareAndSwap(last, now) {
		return
	}
	g.log.Warn().Str("peer", e.Member).Str("addr", e.Addr).Str("what", e.What).
		Str("mine", e.Mine).Str("theirs", e.Theirs).Msg("member of another cluster refused")
}

// splitHostPort splits an address whose port may be missing.
func splitHostPort(addr string) (host, port string) {
	if h, p, err := net.SplitHostPort(addr); err == nil {
		return h, p
	}
	return strings.Trim(addr, "[]"), ""
}
