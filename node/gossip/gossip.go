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

// Gossip is the membership of this node.
type Gossip struct {
	o        Options
	log      zerolog.Logger
	merge    *mergeDelegate
	tags     atomic.Pointer[Tags]
	usedTags atomic.Pointer[tagsSize]

	serf *serf.Serf // set by Listen
	self netip.AddrPort
	// bindAddr is the local address of the gossip port. It is not valid with Options.Transport.
	bindAddr        netip.AddrPort
	events          chan serf.Event
	keyring         *memberlist.Keyring // nil means plain text
	limiter         *streamLimiter      // set by Listen
	retention       *retention
	snapshot        *memberSnapshot // set by Listen
	previousMembers []seenMember    // members that were alive when the previous process ended; set by Listen
	decoded         tagCache
	claims          *claims

	choice clusterChoice

	changed       chan struct{} // capacity 1; see Changed
	tagsChanged   chan struct{} // capacity 1; the tags must be announced
	refused       chan *RefusedError
	joinErr       atomic.Pointer[error]
	attempts      atomic.Pointer[[]Attempt]
	leaving       sync.WaitGroup // calls of serf.Leave in progress, including calls whose caller no longer waits
	left          chan struct{}  // closed by the first Leave; then no address is joined any more
	leaveOnce     sync.Once
	refusalLogged atomic.Int64 // time of the last logged refusal, UnixNano
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
		events:      make(chan serf.Event, 1024), // Serf holds its lock while it sends, so a full channel would block membership
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

// Listen opens the gossip port and starts Serf. The caller must call Run afterwards, which stops
// what Listen has started.
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
	unschedule(s.Memberlist()) // stops the probes, which no setting disables
	local := s.Memberlist().LocalNode()
	ip, _ := netip.AddrFromSlice(local.Addr)
	g.self = netip.AddrPortFrom(ip.Unmap(), local.Port)
	return nil
}

// Addr returns the advertised address. It is valid after Listen.
func (g *Gossip) Addr() netip.AddrPort { return g.self }

// Run keeps this node in the cluster until ctx ends, then shuts Serf down. It returns when all
// goroutines of Listen and Run have been stopped. Timers of the libraries may remain for some seconds.
func (g *Gossip) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(g.drainEvents)
	wg.Go(func() { g.tagsLoop(ctx) })
	wg.Go(func() { g.joinUntilLeft(ctx) })
	go g.rejoin(ctx, g.previousMembers) // Run does not wait for it, as for probes: a member that does not respond takes seconds
	saved := make(chan struct{})
	go func() {
		defer close(saved)
		g.snapshotLoop()
	}()
	stopTicks := g.startTicks(context.WithoutCancel(ctx))
	<-ctx.Done()
	g.leaving.Wait() // memberlist panics if it is shut down while it leaves, and the last ticks send the goodbye
	stopTicks()
	err := g.serf.Shutdown()
	wg.Wait()
	select {
	case <-saved:
	case <-time.After(lastSaveTimeout):
		g.log.Warn().Str("file", g.snapshot.path).Msg("known members not written, disk stalled")
	}
	if err != nil {
		return fmt.Errorf("gossip: shutdown: %w", err)
	}
	return nil
}

// drainEvents receives all events of Serf, because an unread event blocks membership.
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

// notify sends to a channel of capacity 1 without blocking.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Changed signals that Members may have changed.
func (g *Gossip) Changed() <-chan struct{} { return g.changed }

// Streams returns statistics of the streams that other hosts have opened. It is empty before
// Listen, and must not be called while Listen runs.
func (g *Gossip) Streams() StreamStats {
	if g.limiter == nil {
		return StreamStats{}
	}
	return g.limiter.stats()
}

// Members returns all members that Serf remembers, sorted by ID.
func (g *Gossip) Members() []Member {
	return g.decoded.members(slices.DeleteFunc(g.serf.Members(), g.retention.isHidden))
}

// Refused reports that this node and the node that it tried to join belong to different clusters,
// unless this node has seen another node since its start. It also reports at any time that the
// cluster of this node is superseded. It keeps one report until it is received.
func (g *Gossip) Refused() <-chan *RefusedError { return g.refused }

// Alone returns nil if another node is alive, and otherwise why none was reached yet.
func (g *Gossip) Alone() error {
	if !g.isAlone() {
		return nil
	}
	if p := g.joinErr.Load(); p != nil {
		return *p
	}
	return errors.New("gossip: no other node seen yet")
}

// tagsSize is the encoded size of tags, in bytes.
type tagsSize struct {
	tags  *Tags
	bytes int
}

// TagsUsed returns the encoded size of the tags of this member and the maximum, in bytes.
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

// Tried returns the result of each join address in the last round. It is empty before the first
// round, and while another node is alive.
func (g *Gossip) Tried() []Attempt {
	if p := g.attempts.Load(); p != nil {
		return *p
	}
	return nil
}

// isAlone reports whether no other node is alive.
func (g *Gossip) isAlone() bool { return g.countNodes() <= 1 }

// countNodes returns the number of alive nodes, including this one.
func (g *Gossip) countNodes() int {
	n := 1
	for _, m := range g.serf.Members() {
		if m.Name != g.o.Name && m.Status == serf.StatusAlive && m.Tags[tagNode] != "" {
			n++
		}
	}
	return n
}

// SetTags changes the tags of this node. Refusals use the new values immediately; Run announces
// them.
func (g *Gossip) SetTags(t Tags) error {
	if _, err := t.encode(); err != nil {
		return err
	}
	g.tags.Store(&t)
	notify(g.tagsChanged)
	return nil
}

// tagsLoop announces the newest tags. Only this goroutine calls SetTags of Serf, which is not safe
// for concurrent use.
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
			// The tags are set; only the first announcement has failed. State exchanges repeat it.
			g.log.Debug().Err(err).Msg("gossip tags not announced yet")
		}
		notify(g.changed)
	}
}

// Leave announces that this node leaves, so that other nodes show it as left and not as failed.
// Only the end of Run may follow.
func (g *Gossip) Leave(ctx context.Context) error {
	g.leaveOnce.Do(func() { close(g.left) })
	g.snapshot.freeze()
	done := make(chan error, 1)
	g.leaving.Go(func() { done <- g.serf.Leave() }) // ends by the timeouts of Serf, after about 2.5 s
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

// Forget makes Members omit a member that has left or failed, or that does so within a minute. It
// has no effect on a member that is alive. Gossip does not spread this, so the caller must tell
// the other nodes as well.
func (g *Gossip) Forget(id string) { g.retention.markForgotten(id) }

// report stores a refusal for Refused.
func (g *Gossip) report(r *RefusedError) {
	select {
	case g.refused <- r:
	default: // one refusal is enough to stop the node
	}
}

// onRefusal handles each refusal, whichever side has started the exchange.
func (g *Gossip) onRefusal(e *RefusedError) {
	if e.Superseded {
		g.report(e)
	}
	g.logRefusal(e)
}

// logRefusal logs at most one refusal per 10 s, because every packet about a foreign member causes
// one.
func (g *Gossip) logRefusal(e *RefusedError) {
	now := time.Now().UnixNano()
	last := g.refusalLogged.Load()
	if now-last < int64(10*time.Second) || !g.refusalLogged.CompareAndSwap(last, now) {
		return
	}
	g.log.Warn().Str("peer", e.Member).Str("addr", e.Addr).Str("what", e.What).
		Str("mine", e.Mine).Str("theirs", e.Theirs).Msg("member of another cluster refused")
}

// splitHostPort splits an address whose port may be absent.
func splitHostPort(addr string) (host, port string) {
	if h, p, err := net.SplitHostPort(addr); err == nil {
		return h, p
	}
	return strings.Trim(addr, "[]"), ""
}
