package ack_test

import (
	"fmt"
	"slices"
	"time"

	"shardway/ack"
	"shardway/ack/agent"
	"shardway/ack/leader"
	"shardway/shardmap"
)

// Two nodes, a and b, run until both serve; a leads. The clock is a number, the log is one
// state that both see at once, and messages wait in a slice.
//
// Both nodes form the cluster (BootstrapExpect). So the leader, which becomes eligible first,
// waits for b with the first map.
func Example() {
	c := &toy{state: ack.NewState(), nodes: map[shardmap.NodeID]*toyNode{}}
	a, b := c.start("a"), c.start("b")
	c.turn = leader.NewDriver(leader.DriverOptions{
		Leader: leader.Options{Server: "a/disk", Term: c.Term(), Pace: ack.DefaultPace(), Timing: ack.DefaultTiming(), BootstrapExpect: 2},
		Raft:   c, Clock: func() time.Duration { return c.now }, NewestState: func() *ack.State { return c.state },
	})
	for !a.leased() || !b.leased() {
		c.now += 10 * time.Millisecond
		c.lead()
		a.follow()
		b.follow()
	}
	for s := range shardmap.Shard(2) {
		for _, n := range []*toyNode{a, b} {
			if epoch, ok := n.admit(s); ok {
				fmt.Printf("shard %d: %s runs a request under epoch %d\n", s, n.id, epoch)
			}
		}
	}
	// Output:
	// log 1: map 0 proposed, map 0 committed
	// log 2: map 2 proposed, map 0 committed
	// log 3: map 2 proposed, map 2 committed
	// shard 0: a runs a request under epoch 2
	// shard 1: b runs a request under epoch 2
}

// toy is a cluster: its clock, its log, and the leader with its queue of messages.
type toy struct {
	now      time.Duration
	index    uint64
	state    *ack.State
	turn     *leader.Driver
	inbox    []leader.Message
	nodes    map[shardmap.NodeID]*toyNode
	quiet    bool // a test has it
	confirms bool // the nodes confirm answers, see agent.Options.IsFollowingVoter
}

// Term and Voters are what the leader reads of its Raft.
func (c *toy) Term() uint64     { return 1 }
func (c *toy) Voters() []string { return []string{"a/disk", "b/disk"} }

func (c *toy) Nonvoters() []string { return nil }

// lead is the body of the leader loop: received messages, then a tick.
func (c *toy) lead() {
	messages := append(c.inbox, leader.Tick{})
	c.inbox = nil
	for _, m := range messages {
		for _, e := range c.turn.Step(m) {
			c.perform(e)
		}
	}
}

// perform performs an effect of the leader. It never calls the driver: the result of an effect
// is a further message.
func (c *toy) perform(e leader.Effect) {
	switch e := e.(type) {
	case leader.Barrier: // nothing is before it in this log; the cluster is made with it
		c.append(ack.EncodeBootstrap("demo", 2, ack.DefaultTiming()))
		c.inbox = append(c.inbox, leader.BarrierApplied{})
	case leader.Submit:
		c.append(e.Entry)
	case leader.Reply:
		c.nodes[e.To].inbox = append(c.nodes[e.To].inbox, e.Answer)
	case leader.IdleShardsQuery: // the toy's nodes do not answer
	case leader.StepDown, leader.Event:
	}
}

// append puts an entry into the log, which every node applies at once.
func (c *toy) append(entry []byte) {
	c.index++
	next, _, err := c.state.Apply(c.index, c.Term(), entry)
	if err != nil {
		panic(err) // a node that cannot read its log stops
	}
	c.state = next
	if c.quiet {
		return
	}
	fmt.Printf("log %d: map %d proposed, map %d committed\n", c.index, next.Proposed().Epoch(), next.Committed().Epoch())
}

// toyNode is a node: its agent, and its gate.
type toyNode struct {
	id      shardmap.NodeID
	toy     *toy
	agent   *agent.Agent
	inbox   []ack.Answer
	lease   time.Duration
	routing ack.Routing
	running []shardmap.Shard
}

func (c *toy) start(id shardmap.NodeID) *toyNode {
	n := &toyNode{id: id, toy: c, routing: ack.NewRouting(id, c.state, 0, false)}
	n.agent = agent.New(agent.Options{
		Node: id, Server: string(id) + "/disk", Boot: 1, Nonce: 7, Pace: ack.DefaultPace(), Timing: ack.DefaultTiming(), Gate: n, RaftTerm: c.Term,
		SendHeartbeat: func(hb ack.Heartbeat) {
			c.inbox = append(c.inbox, leader.HeartbeatReceived{Heartbeat: hb, From: string(id)})
		},
		RaiseBoot:        func(known uint64) (uint64, bool) { return known + 1, true }, // a toy has no disk
		IsFollowingVoter: func() bool { return c.confirms },
	}, c.now)
	c.nodes[id] = n
	return n
}

// follow is the body of the node loop: received answers, with a poll after each.
func (n *toyNode) follow() {
	answers := n.inbox
	n.inbox = nil
	for _, ans := range answers {
		n.agent.HandleAnswer(n.toy.now, ans)
		n.look()
	}
	n.look()
}

func (n *toyNode) look() { n.agent.Poll(n.toy.now, agent.Observation{State: n.toy.state, Weight: 1}) }

// admit counts first, and then checks routing and lease.
func (n *toyNode) admit(s shardmap.Shard) (epoch shardmap.Epoch, ok bool) {
	n.running = append(n.running, s)
	if r := n.routing.Route(s); r.Kind == ack.RouteLocal && n.leased() {
		return r.Epoch, true
	}
	n.running = n.running[:len(n.running)-1]
	return 0, false
}

// leased returns true only once a map is committed that the node has acknowledged.
func (n *toyNode) leased() bool { return n.toy.now < n.lease }

// Lease, Route, Running and Cut implement Gate.
func (n *toyNode) PublishLease(until time.Duration) (missed bool) {
	missed = n.toy.now >= n.lease
	n.lease = until
	return missed
}

func (n *toyNode) PublishRouting(r ack.Routing) { n.routing = r }

func (n *toyNode) AbortRequests(_ agent.AbortReason, may func(shardmap.Shard) bool) {
	n.running = slices.DeleteFunc(n.running, func(s shardmap.Shard) bool { return !may(s) })
}

func (n *toyNode) CountRunning(may func(shardmap.Shard) bool) int {
	return len(slices.DeleteFunc(slices.Clone(n.running), may))
}
