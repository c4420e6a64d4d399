//go:build linux

package chaos

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/history"
	"shardway/e2e/kit/load"
)

// registers is the number of keys per round that are registers. It is small, so that each register
// has many operations. A third of the registers is in the memory of the app, a third in the fenced
// store, and a third in a store that ignores epochs.
const registers = 16

// registerMode returns where the n-th register is stored.
func registerMode(n int) string { return []string{"memory", "store", unfenced}[n%registers%3] }

// unfenced is the mode of registers in a store that ignores epochs. Only the cluster protects them
// from a previous owner.
const unfenced = "unfenced"

// longDelay is the duration of the longest regular requests.
const longDelay = "700ms"

// traffic is the load on a cluster: clients that live as long as the cluster, and in each
// round one generator per client.
type traffic struct {
	sc         *scenario
	clients    []*load.Client
	rates      []int
	noRetry    []string // addresses of nodes that may die, to which no unsafe request is sent twice
	generators []*load.Generator
	ctx        context.Context //nolint:containedctx // of the requests of the round
	abort      context.CancelFunc

	// singleRequests is the number of single requests in the round.
	singleRequests int
	pending        sync.WaitGroup
	mu             sync.Mutex
	responses      []history.Response // to the single requests
}

// newTraffic returns two clients that use counters and one that uses registers.
func newTraffic(sc *scenario) *traffic {
	t := &traffic{sc: sc, rates: []int{sc.opts.Rate / 4, sc.opts.Rate / 4, sc.opts.Rate / 2}}
	for range t.rates {
		t.clients = append(t.clients, load.NewClient(nil, nil))
	}
	t.setTargets(sc.members)
	return t
}

// setTargets makes all clients send their next requests to these nodes, in turn.
func (t *traffic) setTargets(nodes []*cluster.Node) {
	addrs := cluster.Addrs(nodes)
	for _, client := range t.clients {
		client.SetTargets(slices.Clone(addrs))
		addrs = append(addrs[1:], addrs[0]) // each client starts at a different node
	}
	if t.sc.followers != nil { // nil until the followers start, which use the same nodes
		t.sc.followers.setTargets(nodes)
	}
}

// begin starts the load of a round.
func (t *traffic) begin() {
	t.ctx, t.abort = context.WithCancel(context.Background())
	t.singleRequests, t.responses = 0, nil
	plainKeys, registerKeys := t.sc.uniqueKeys("n"), t.sc.uniqueKeys("r")[:registers]
	for i, client := range t.clients {
		opts := load.Options{
			Client: client, Rate: t.rates[i], Keys: plainKeys,
			Prefix: fmt.Sprintf("r%d.%d", t.sc.roundNumber, i), Timeout: t.sc.opts.clientTimeout(),
		}
		// The longest requests use the register keys, which are the most frequent keys. A request
		// that runs for too long then overlaps with other requests.
		opts.ModifyRequest = func(n int, req *load.Request) {
			mixRequests(n, req)
			if req.Header["App-Delay"] == longDelay {
				cycle, isPost := n/40, n%2 // mixRequests makes one GET and one POST that long in 40 requests
				req.Key = registerKeys[(2*cycle+isPost+i*registers/2)%registers]
			}
		}
		if i == len(t.clients)-1 {
			opts.Keys, opts.ModifyRequest = registerKeys, makeRegisterOp
		}
		t.generators = append(t.generators, load.Start(t.ctx, opts))
	}
}

// sendLateWrites sends writes to the registers that a node owns. The writes are so slow that the app
// performs them only after the shards of the node have moved. The store must reject these writes if
// the register is fenced.
func (t *traffic) sendLateWrites(shardMap cluster.Map, node *cluster.Node) {
	for i, key := range t.sc.uniqueKeys("r")[:registers] {
		if shardMap.OwnerOf(key) != node.ID {
			continue
		}
		req := load.Request{
			ID: t.nextID("late"), Key: key, Method: http.MethodPost, Timeout: t.sc.opts.clientTimeout(),
			Header: map[string]string{"App-Register": registerMode(i), "App-Late": "3500ms"},
		}
		req.Body = []byte(req.ID)
		t.sendSingle(t.clients[i%len(t.clients)], req, func() {})
	}
}

// nextID returns the ID of the next single request of the round. kind is the part of the ID that
// describes the request.
func (t *traffic) nextID(kind string) string {
	t.singleRequests++
	return fmt.Sprintf("r%d.%s%d", t.sc.roundNumber, kind, t.singleRequests)
}

// sendSingle sends one request in the background, in addition to the load. end returns its response.
// afterResponse is called when the client has the response or an error.
func (t *traffic) sendSingle(client *load.Client, req load.Request, afterResponse func()) {
	ctx := t.ctx
	t.pending.Go(func() {
		resp := client.Do(ctx, req)
		afterResponse()
		t.mu.Lock()
		defer t.mu.Unlock()
		t.responses = append(t.responses, resp)
	})
}

// mixRequests makes some requests slow, and gives some a large response or a large body. Each kind
// exists as GET and as POST, except the last one.
func mixRequests(n int, req *load.Request) {
	switch n % 40 {
	case 4, 5, 24, 25:
		req.Header = map[string]string{"App-Delay": "50ms"}
	case 8, 9:
		req.Header = map[string]string{"App-Size": "50000"}
	case 12, 13, 32, 33:
		req.Header = map[string]string{"App-Size": "3000", "App-Chunks": "6", "App-Delay": "20ms"}
	case 16, 17:
		req.Header = map[string]string{"App-Delay": longDelay}
	case 29:
		req.Body = make([]byte, 100_000)
	}
}

// makeRegisterOp turns a request into an operation on a register. A POST writes the
// request ID, which is unique.
func makeRegisterOp(n int, req *load.Request) {
	req.Header = map[string]string{"App-Register": registerMode(n / 2)}
}

// awaitLoad waits until as many further requests have started as the load sends in this time.
func (t *traffic) awaitLoad(sc *scenario, duration time.Duration) {
	wanted := t.startedRequests() + int(duration.Seconds()*float64(sc.opts.Rate))
	cluster.Await(sc, "requests start", func() error {
		if n := t.startedRequests(); n < wanted {
			return fmt.Errorf("%d of %d requests started", n, wanted)
		}
		return nil
	})
}

// startedRequests returns the number of requests that the generators have started in this round.
func (t *traffic) startedRequests() int {
	count := 0
	for _, generator := range t.generators {
		count += generator.Started()
	}
	return count
}

// end stops the load of the round, waits for all responses, and returns them.
func (t *traffic) end() []history.Response {
	var all []history.Response
	for _, generator := range t.generators {
		all = append(all, generator.Stop()...)
	}
	t.generators = nil
	t.pending.Wait()
	t.abort()
	return append(all, t.responses...)
}

// unsolicited returns the number of bytes that arrived on idle connections.
func (t *traffic) unsolicited() int {
	total := 0
	for _, client := range t.clients {
		total += client.Unsolicited()
	}
	return total
}

// forbidRetry forbids clients to repeat an unsafe request that may have run at this node.
func (t *traffic) forbidRetry(node *cluster.Node) {
	t.noRetry = append(t.noRetry, node.Addr)
	t.applyNoRetry()
}

// allowRetry ends the effect of forbidRetry for a node.
func (t *traffic) allowRetry(node *cluster.Node) {
	t.noRetry = slices.DeleteFunc(t.noRetry, func(addr string) bool { return addr == node.Addr })
	t.applyNoRetry()
}

func (t *traffic) applyNoRetry() {
	for _, client := range t.clients {
		client.SetNoRetry(slices.Clone(t.noRetry)...)
	}
}

func (t *traffic) close() {
	if t.abort != nil {
		t.abort()
	}
	for _, generator := range t.generators {
		generator.Stop()
	}
	t.pending.Wait()
	for _, client := range t.clients {
		client.Close()
	}
}
