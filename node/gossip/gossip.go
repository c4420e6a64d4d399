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
	options         Options
	log             zerolog.Logger
	mergeDelegate   *mergeDelegate
	tags            atomic.Pointer[Tags]
	encodedTagsSize atomic.Pointer[tagsSize]

	serf     *serf.Serf // set by Listen
	selfAddr netip.AddrPort
	// bindAddr is the local address of the gossip port. It is not valid with Options.Transport.
	bindAddr        netip.AddrPort
	events          chan serf.Event
	keyring         *memberlist.Keyring // nil means plain text
	limiter         *streamLimiter      // set by Listen
	retention       *retention
	snapshot        *memberSnapshot // set by Listen
	previousMembers []seenMember    // members that were alive when the previous process ended; set by Listen
	tagCache        tagCache
	addressClaims   *claimTracker

	clusterChoice clusterChoice

	changed        chan struct{} // capacity 1; see Changed
	tagsChanged    chan struct{} // capacity 1; the tags must be announced
	refusals       chan *RefusedError
	joinErr        atomic.Pointer[error]
	lastAttempts   atomic.Pointer[[]JoinAttempt]
	leaveCalls     sync.WaitGroup // calls of serf.Leave in progress, including calls whose caller no longer waits
	leaveStarted   chan struct{}  // closed by the first Leave; then no address is joined any more
	leaveOnce      sync.Once
	lastRefusalLog atomic.Int64 // time of the last logged refusal, UnixNano
}

// New checks the options and returns a Gossip that is not connected yet; see Listen.
func New(options Options) (*Gossip, error) {
	options.setDefaults()
	if options.Name == "" {
		return nil, errors.New("gossip: member without a name")
	}
	if err := options.Tags.CheckSize(); err != nil {
		return nil, err
	}
	if options.usesMulticastDNS() && len(options.Keys) == 0 {
		return nil, fmt.Errorf("gossip: join %s: it needs the cluster's secret, because every host of the network can respond (--secret-file)", MulticastDNS)
	}
	g := &Gossip{
		options:       options,
		log:           options.Log,
		events:        make(chan serf.Event, 1024), // Serf holds its lock while it sends, so a full channel would block membership
		changed:       make(chan struct{}, 1),
		tagsChanged:   make(chan struct{}, 1),
		refusals:      make(chan *RefusedError, 1),
		retention:     &retention{retainForever: options.RetainForever},
		addressClaims: newClaimTracker(options.Name),
		leaveStarted:  make(chan struct{}),
	}
	if len(options.Keys) > 0 {
		var err error
		if g.keyring, err = memberlist.NewKeyring(options.Keys, options.Keys[0]); err != nil {
			return nil, fmt.Errorf("gossip: keys: %w", err)
		}
	}
	tags := options.Tags
	g.tags.Store(&tags)
	g.clusterChoice.undecided.Store(len(options.JoinAddrs) > 0 && options.Tags.Node != "")
	g.mergeDelegate = &mergeDelegate{self: options.Name, localTags: &g.tags, choice: &g.clusterChoice, isServer: options.RetainForever, onRefusal: g.onRefusal, onAccepted: g.addressClaims.onAnnouncement}
	return g, nil
}

// Listen opens the gossip port and starts Serf. The caller must call Run afterwards, which stops
// what Listen has started.
func (g *Gossip) Listen(ctx context.Context) error {
	conf, err := g.serfConfig(ctx)
	if err != nil {
		if isAddrInUse(err) {
			return fmt.Errorf("gossip: %s is taken, perhaps by another node: stop it, or name another address with --gossip: %w", g.options.BindAddr, err)
		}
		return err
	}
	if g.snapshot, err = openSnapshot(g.options.SnapshotPath); err != nil {
		g.log.Warn().Err(err).Str("file", g.options.SnapshotPath).Msg("list of known members not read")
	}
	g.previousMembers = g.snapshot.aliveMembers()
	serfInstance, err := serf.Create(conf)
	if err != nil {
		return errors.Join(fmt.Errorf("gossip: listen on %s: %w", g.options.BindAddr, err), g.limiter.Shutdown())
	}
	g.serf = serfInstance
	restoreLamportTime(conf.MemberlistConfig.Delegate, g.snapshot.lamportClock)
	unschedule(serfInstance.Memberlist()) // stops the probes, which no setting disables
	local := serfInstance.Memberlist().LocalNode()
	ip, _ := netip.AddrFromSlice(local.Addr)
	g.selfAddr = netip.AddrPortFrom(ip.Unmap(), local.Port)
	return nil
}

// Addr returns the advertised address. It is valid after Listen.
func (g *Gossip) Addr() netip.AddrPort { return g.selfAddr }

// Run keeps this node in the cluster until ctx ends, then shuts Serf down. It returns when all
// goroutines of Listen and Run have been stopped. Timers of the libraries may remain for some seconds.
func (g *Gossip) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(g.drainEvents)
	wg.Go(func() { g.tagsLoop(ctx) })
	wg.Go(func() { g.joinUntilLeft(ctx) })
	wg.Go(func() { g.respondToMulticast(ctx) })
	go g.rejoinPreviousMembers(ctx, g.previousMembers) // Run does not wait for it, as for probes: a member that does not respond takes seconds
	saved := make(chan struct{})
	go func() {
		defer close(saved)
		g.snapshotLoop()
	}()
	stopTicks := g.startPeriodicWork(context.WithoutCancel(ctx))
	<-ctx.Done()
	g.leaveCalls.Wait() // memberlist panics if it is shut down while it leaves, and the last ticks send the goodbye
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
		case event := <-g.events:
			g.retention.onEvent(event)
			g.addressClaims.onEvent(event)
			g.snapshot.onEvent(event)
			notify(g.changed)
		case <-g.serf.ShutdownCh():
			return
		}
	}
}

// notify sends to a channel of capacity 1 without blocking.
func notify(signal chan struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}

// Changed signals that Members may have changed.
func (g *Gossip) Changed() <-chan struct{} { return g.changed }

// StreamStatistics returns statistics of the streams that other hosts have opened. It is empty before
// Listen, and must not be called while Listen runs.
func (g *Gossip) StreamStatistics() StreamStats {
	if g.limiter == nil {
		return StreamStats{}
	}
	return g.limiter.stats()
}

// Members returns all members that Serf remembers, sorted by ID.
func (g *Gossip) Members() []Member {
	return g.tagCache.members(slices.DeleteFunc(g.serf.Members(), g.retention.isExpired))
}

// Refusals returns a channel of refusals after which this node must stop. Either the node at a
// join address belongs to another cluster, and this node has seen no other node since its start.
// Or the cluster of this node is superseded. The channel keeps one refusal until it is received.
func (g *Gossip) Refusals() <-chan *RefusedError { return g.refusals }

// NoOtherNodeReason returns nil if another node is alive. Otherwise it returns why this node has
// reached no other node yet.
func (g *Gossip) NoOtherNodeReason() error {
	if !g.isAlone() {
		return nil
	}
	if joinErr := g.joinErr.Load(); joinErr != nil {
		return *joinErr
	}
	return errors.New("gossip: no other node seen yet")
}

// tagsSize is the encoded size of tags, in bytes.
type tagsSize struct {
	tags  *Tags
	bytes int
}

// TagsSize returns the encoded size of the tags of this member and the maximum, in bytes.
func (g *Gossip) TagsSize() (used, maximum int) {
	tags := g.tags.Load()
	if cached := g.encodedTagsSize.Load(); cached != nil && cached.tags == tags {
		return cached.bytes, endpoints.MaxTags
	}
	used = endpoints.MaxTags
	if encoded, err := tags.encode(); err == nil {
		used = endpoints.EncodedLen(encoded)
	}
	g.encodedTagsSize.Store(&tagsSize{tags, used})
	return used, endpoints.MaxTags
}

// JoinAttempts returns the result of each join address in the last round of joining. It is empty
// before the first round, and while another node is alive.
func (g *Gossip) JoinAttempts() []JoinAttempt {
	if attempts := g.lastAttempts.Load(); attempts != nil {
		return *attempts
	}
	return nil
}

// isAlone reports whether no other node is alive.
func (g *Gossip) isAlone() bool { return g.countNodes() <= 1 }

// countNodes returns the number of alive nodes, including this one.
func (g *Gossip) countNodes() int {
	count := 1
	for _, member := range g.serf.Members() {
		if member.Name != g.options.Name && member.Status == serf.StatusAlive && isNode(member.Name, member.Tags[tagNode]) {
			count++
		}
	}
	return count
}

// SetTags changes the tags of this node. Refusals use the new values immediately; Run announces
// them.
func (g *Gossip) SetTags(tags Tags) error {
	if _, err := tags.encode(); err != nil {
		return err
	}
	g.tags.Store(&tags)
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
		encoded, err := g.announcedTags().encode()
		if err == nil {
			announced := make(chan error, 1)
			go func() { announced <- g.serf.SetTags(encoded) }() // Run does not wait for it: Serf waits up to 1 s for other nodes
			select {
			case err = <-announced:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			// The tags are set; only the first announcement has failed. State exchanges repeat it.
			g.log.Debug().Err(err).Msg("gossip tags not announced yet")
		}
		notify(g.changed)
	}
}

// Leave announces that this node leaves, so that other nodes show it as left and not as failed.
// Only the end of Run may follow.
func (g *Gossip) Leave(ctx context.Context) error {
	g.leaveOnce.Do(func() { close(g.leaveStarted) })
	g.snapshot.freeze()
	done := make(chan error, 1)
	g.leaveCalls.Go(func() { done <- g.serf.Leave() }) // ends by the timeouts of Serf, after about 2.5 s
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

// reportRefusal sends a refusal to Refusals.
func (g *Gossip) reportRefusal(refusal *RefusedError) {
	select {
	case g.refusals <- refusal:
	default: // one refusal is enough to stop the node
	}
}

// onRefusal handles each refusal, whichever side has started the exchange.
func (g *Gossip) onRefusal(refusal *RefusedError) {
	if refusal.Superseded {
		g.reportRefusal(refusal)
	}
	g.logRefusal(refusal)
}

// refusalLogInterval is the minimum interval between two log lines about refusals.
const refusalLogInterval = 10 * time.Second

// logRefusal logs at most one refusal per refusalLogInterval, because every packet about a foreign member
// causes one.
func (g *Gossip) logRefusal(refusal *RefusedError) {
	now := time.Now().UnixNano()
	lastLoggedAt := g.lastRefusalLog.Load()
	if now-lastLoggedAt < int64(refusalLogInterval) || !g.lastRefusalLog.CompareAndSwap(lastLoggedAt, now) {
		return
	}
	g.log.Warn().Str("peer", refusal.Member).Str("addr", refusal.Addr).Str("what", refusal.Tag).
		Str("mine", refusal.LocalValue).Str("theirs", refusal.RemoteValue).Msg("member of another cluster refused")
}

// splitHostPort splits an address whose port may be absent.
func splitHostPort(addr string) (host, port string) {
	if splitHost, splitPort, err := net.SplitHostPort(addr); err == nil {
		return splitHost, splitPort
	}
	return strings.Trim(addr, "[]"), ""
}
