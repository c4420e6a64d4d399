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
	o        Options
	log      zerolog.Logger
	merge    *mergeDelegate
	tags     atomic.Pointer[Tags]
	usedTags atomic.Pointer[tagsSize]

	serf *serf.Serf // set by Listen
	self netip.AddrPort
	// listens is where the gossip port is bound; not valid with Options.Transport.
	bindAddr        netip.AddrPort
	events          chan serf.Event
	keyring         *memberlist.Keyring // nil: plain text
	limiter         *streamLimiter      // set by Listen
	retention       *retention
	snapshot        *memberSnapshot // set by Listen
	previousMembers []seenMember    // who was there when the last one with its file ended; set by Listen
	decoded         tagCache
	claims          *claims

	choice clusterChoice

	changed       chan struct{} // 1: hint
	tagsChanged   chan struct{} // 1: hint
	refused       chan *RefusedError
	joinErr       atomic.Pointer[error]
	attempts      atomic.Pointer[[]Attempt]
	leaving       sync.WaitGroup // Leave calls under way, also those that nobody waits for
	left          chan struct{}  // closed by the first Leave: nothing is joined any more
	leaveOnce     sync.Once
	refusalLogged atomic.Int64 // when a refusal was last logged, UnixNano
}

// New checks the options. It opens nothing.
func New(o Options) (*Gossip, error) {
	o.defaults()
	if o.Name == "" {
		return nil, errors.New("gossip: member without a name")
	}
	if _, err := o.Tags.withMaxLengths().encode(); err != nil {
		return nil, err
	}
	g := &Gossip{
		o:           o,
		log:         o.Log,
		events:      make(chan serf.Event, 1024), // Serf holds its lock while it sends: a full channel would stop membership itself
		changed:     make(chan struct{}, 1),
		tagsChanged: make(chan struct{}, 1),
		refused:     make(chan *RefusedError, 1),
		retention:   &retention{keep: o.Keep},
		claims:      newClaims(o.Name),
		left:        make(chan struct{}),
	}
	if len(o.Keys) > 0 {
		var err error
		if g.keyring, err = memberlist.NewKeyring(o.Keys, o.Keys[0]); err != nil {
			return nil, fmt.Errorf("gossip: keys: %w", err)
		}
	}
	tags := o.Tags
	g.tags.Store(&tags)
	g.choice.undecided.Store(len(o.Join) > 0 && o.Tags.Node != "")
	g.merge = &mergeDelegate{self: o.Name, mine: &g.tags, choice: &g.choice, onRefusal: g.onRefusal, onAccepted: g.claims.onAnnouncement}
	return g, nil
}

// Listen opens the gossip port and starts Serf. Run must follow; it ends what
// Listen started.
func (g *Gossip) Listen(ctx context.Context) error {
	conf, err := g.config(ctx)
	if err != nil {
		if isAddrInUse(err) {
			return fmt.Errorf("gossip: %s is taken, perhaps by another node: stop it, or name another address with --gossip: %w", g.o.Bind, err)
		}
		return err
	}
	if g.snapshot, err = openSnapshot(g.o.SnapshotPath); err != nil {
		g.log.Warn().Err(err).Str("file", g.o.SnapshotPath).Msg("list of known members not read")
	}
	g.previousMembers = g.snapshot.aliveMembers()
	s, err := serf.Create(conf)
	if err != nil {
		return errors.Join(fmt.Errorf("gossip: listen on %s: %w", g.o.Bind, err), g.limiter.Shutdown())
	}
	g.serf = s
	restoreClock(conf.MemberlistConfig.Delegate, g.snapshot.clock)
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
	wg.Go(g.drainEvents)
	wg.Go(func() { g.tagsLoop(ctx) })
	wg.Go(func() { g.joinUntilLeft(ctx) })
	go g.rejoin(ctx, g.previousMembers) // not waited for, as probes: who does not answer is given seconds
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		g.snapshotLoop()
	}()
	stopTicks := g.startTicks(context.WithoutCancel(ctx))
	<-ctx.Done()
	g.leaving.Wait() // memberlist panics when it is shut down while it leaves, and the last ticks say goodbye
	stopTicks()
	err := g.serf.Shutdown()
	wg.Wait()
	select {
	case <-kept:
	case <-time.After(lastSaveTimeout):
		g.log.Warn().Str("file", g.snapshot.path).Msg("known members not written, disk stalled")
	}
	if err != nil {
		return fmt.Errorf("gossip: shutdown: %w", err)
	}
	return nil
}

// drain takes every event: one that is left blocks membership itself.
func (g *Gossip) drainEvents() {
	for {
		select {
		case e := <-g.events:
			g.retention.onEvent(e)
			g.claims.onEvent(e)
			g.snapshot.onEvent(e)
			notify(g.changed)
		case <-g.serf.ShutdownCh():
			return
		}
	}
}

func notify(c chan struct{}) {
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
	if g.limiter == nil {
		return StreamStats{}
	}
	return g.limiter.stats()
}

// Members returns every member that gossip remembers, sorted by id.
func (g *Gossip) Members() []Member {
	return g.decoded.members(slices.DeleteFunc(g.serf.Members(), g.retention.isHidden))
}

// Refused reports that this node and the one that it tried to join do not belong
// together, as long as it has seen no other node since its start; and at any time
// that this node's cluster is superseded. One is kept until it is taken.
func (g *Gossip) Refused() <-chan *RefusedError { return g.refused }

// Alone returns nil if another node is there, else why none was reached yet.
func (g *Gossip) Alone() error {
	if !g.isAlone() {
		return nil
	}
	if p := g.joinErr.Load(); p != nil {
		return *p
	}
	return errors.New("gossip: no other node seen yet")
}

// tagsUsed is how many bytes tags take.
type tagsSize struct {
	tags  *Tags
	bytes int
}

// TagsUsed returns how many bytes the tags of this member take, and how many they may.
func (g *Gossip) TagsUsed() (used, most int) {
	t := g.tags.Load()
	if u := g.usedTags.Load(); u != nil && u.tags == t {
		return u.bytes, endpoints.MaxTags
	}
	used = endpoints.MaxTags
	if m, err := t.encode(); err == nil {
		used = endpoints.EncodedLen(m)
	}
	g.usedTags.Store(&tagsSize{t, used})
	return used, endpoints.MaxTags
}

// Tried returns what became of each address of Join in the last round; nothing before
// the first, and once another node is there.
func (g *Gossip) Tried() []Attempt {
	if p := g.attempts.Load(); p != nil {
		return *p
	}
	return nil
}

func (g *Gossip) isAlone() bool { return g.countNodes() <= 1 }

// nodes counts those that are alive, with this one, whatever it is.
func (g *Gossip) countNodes() int {
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
	notify(g.tagsChanged)
	return nil
}

// retagging tells the others the newest tags. Only this goroutine calls Serf's
// SetTags, which is not made for several.
func (g *Gossip) tagsLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.tagsChanged:
		}
		m, err := g.announcedTags().encode()
		if err == nil {
			err = g.serf.SetTags(m)
		}
		if err != nil && ctx.Err() == nil {
			// The tags are set; what failed is the first telling. Push and pull go on.
			g.log.Debug().Err(err).Msg("gossip tags not announced yet")
		}
		notify(g.changed)
	}
}

// Leave says goodbye to the others, so that they see this node as left and not
// as failed. It may be followed only by the end of Run.
func (g *Gossip) Leave(ctx context.Context) error {
	g.leaveOnce.Do(func() { close(g.left) })
	g.snapshot.freeze()
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
func (g *Gossip) Forget(id string) { g.retention.markForgotten(id) }

// report keeps a refusal for Refused.
func (g *Gossip) report(r *RefusedError) {
	select {
	case g.refused <- r:
	default: // One is enough to stop.
	}
}

// hearRefusal is told of each refusal, whoever began to talk.
func (g *Gossip) onRefusal(e *RefusedError) {
	if e.Superseded {
		g.report(e)
	}
	g.logRefusal(e)
}

// logRefusal logs at most one refusal in ten seconds: an intruder is asked about
// with every packet.
func (g *Gossip) logRefusal(e *RefusedError) {
	now := time.Now().UnixNano()
	last := g.refusalLogged.Load()
	if now-last < int64(10*time.Second) || !g.refusalLogged.CompareAndSwap(last, now) {
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
