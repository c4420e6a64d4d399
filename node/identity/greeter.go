package identity

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"shardway/internal/chanutil"
	"shardway/internal/clock"
	"shardway/node/cluster"
	"shardway/node/consensus"
	"shardway/node/diskhistory"
	"shardway/peer"
)

const (
	// greetEvery is the interval at which a voter greets the next voter that needs a greeting.
	greetEvery = time.Second
	// greetAllWithin is the maximum time between two greetings of the same voter.
	greetAllWithin = 10 * time.Second
	// greetTimeout bounds one greeting.
	greetTimeout = time.Second
	// greetRetryPause is the pause between two attempts of the first greeting.
	greetRetryPause = 25 * time.Millisecond
)

// greeting records the last greeting of a voter: a connection that is opened only for its handshake, in
// which both nodes state the condition of their disks.
type greeting struct {
	sent diskhistory.Statement // the statement that this node has sent; zero means that the voter was not reachable
	at   time.Time
}

// isOutdated reports whether the voter must be greeted again. own is the current statement of this node.
func (gr greeting) isOutdated(own diskhistory.Statement) bool {
	return gr.sent != own || time.Since(gr.at) >= greetAllWithin
}

// unknownServers are the servers that have greeted this node with an unknown process. Such a
// greeting is not trusted, because every holder of the secret can send it.
type unknownServers struct {
	added chan struct{} // cap 1: a server was added
	mu    sync.Mutex
	all   map[string]bool
}

// newUnknownServers returns an empty set.
func newUnknownServers() *unknownServers {
	return &unknownServers{added: make(chan struct{}, 1), all: map[string]bool{}}
}

// add adds server if it is one of voters.
func (s *unknownServers) add(server string, voters []string) {
	if !slices.Contains(voters, server) {
		return
	}
	s.mu.Lock()
	s.all[server] = true
	s.mu.Unlock()
	chanutil.Notify(s.added)
}

// has reports whether server is in the set.
func (s *unknownServers) has(server string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[server]
}

// remove removes server from the set.
func (s *unknownServers) remove(server string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, server)
}

// Greeter greets the other voters: it opens connections whose handshakes exchange the statements of both
// sides.
type Greeter struct {
	Records   *Records
	Port      *peer.Port
	View      *cluster.View
	Scheduler *clock.Scheduler
	// Background contains the goroutines that end when Raft stops.
	Background *sync.WaitGroup
}

// Run greets the other voters until ctx ends, while this node is a voter: all at the start, so that the leader
// sends Raft heartbeats to this node, and then in turn. In a greeting, both nodes exchange statements about their
// disks. The nodes use the resulting records when there is no leader.
//
// Each greeting opens a connection, which wakes both nodes, so a voter that has received the current statement gets
// no other greeting for greetAllWithin. A voter that has restarted greets this node, but that greeting is not
// trusted: this node greets it back at the address that gossip has for it.
func (g *Greeter) Run(ctx context.Context) {
	for _, server := range g.View.OtherVoters() {
		g.Background.Go(func() { g.greetFirst(ctx, server) })
	}
	ticker := g.Scheduler.NewTicker(greetEvery)
	defer ticker.Stop()
	lastGreetings := map[string]greeting{} // by server
	for round := 0; ; round++ {
		select {
		case <-ctx.Done():
			return
		case <-g.Records.unknownServers.added:
			g.greetUnknown(ctx, round, lastGreetings)
		case <-ticker.C:
			g.greetNext(ctx, round, lastGreetings)
		}
	}
}

// greetUnknown greets all voters that have greeted this node with an unknown process, except voters that were
// greeted in the last greetEvery.
func (g *Greeter) greetUnknown(ctx context.Context, round int, lastGreetings map[string]greeting) {
	own := g.Records.ownStatement()
	for _, server := range g.votersFrom(round) {
		wasGreetedRecently := time.Since(lastGreetings[server].at) < greetEvery
		if g.Records.unknownServers.has(server) && !wasGreetedRecently {
			lastGreetings[server] = g.greetWith(ctx, server, own)
		}
	}
}

// greetNext greets the next voter that needs a greeting, if there is one.
func (g *Greeter) greetNext(ctx context.Context, round int, lastGreetings map[string]greeting) {
	own := g.Records.ownStatement()
	for _, server := range g.votersFrom(round) {
		if g.Records.unknownServers.has(server) || lastGreetings[server].isOutdated(own) {
			lastGreetings[server] = g.greetWith(ctx, server, own)
			return
		}
	}
}

// votersFrom returns the other voters, in an order that starts with a different voter in each round.
func (g *Greeter) votersFrom(round int) []string {
	voters := g.View.OtherVoters()
	if len(voters) == 0 {
		return nil
	}
	first := round % len(voters)
	return slices.Concat(voters[first:], voters[:first])
}

// greetWith greets a voter with the statement own of this node.
func (g *Greeter) greetWith(ctx context.Context, server string, own diskhistory.Statement) greeting {
	g.Records.unknownServers.remove(server) // before the greeting: during it, another unknown process may be added
	result := greeting{at: time.Now()}
	if g.greet(ctx, server) == nil { // after an error, the voter is greeted again
		result.sent = own
	}
	return result
}

// greetFirst greets a voter, and retries for greetEvery while gossip does not have its address.
func (g *Greeter) greetFirst(ctx context.Context, server string) {
	for range greetEvery / greetRetryPause {
		if !errors.Is(g.greet(ctx, server), peer.ErrUnknownNode) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(greetRetryPause):
		}
	}
}

// greet opens and closes a connection to the node of server: the handshake exchanges the statements.
func (g *Greeter) greet(ctx context.Context, server string) error {
	ctx, cancel := context.WithTimeout(ctx, greetTimeout)
	defer cancel()
	c, err := g.Port.Dial(ctx, consensus.NodeOf(server), peer.Control)
	if err != nil {
		return err
	}
	_ = c.Close() // the stream is not used
	return nil
}
