package findings

import (
	"context"
	"slices"
	"sync"
	"time"

	"shardway/diagnosis"
	"shardway/node/consensus"
	"shardway/node/control"
	"shardway/node/leaderloop"
	"shardway/node/selfcheck"
)

const (
	// statementEvery is the interval at which the leader queries the Statement of the next node, in turn. The other
	// nodes receive the leader's own Statement with its report.
	statementEvery = 5 * time.Second
	// removalMargin is how long the removal of a node takes in addition to dead-after.
	removalMargin = 10 * time.Second
)

// selfCheck is the state of the continuous self-check. Except for received, only the goroutine of Run uses it.
type selfCheck struct {
	checker     selfcheck.Checker
	lastQueried string    // node that was queried last
	queriedAt   time.Time // time of that query

	mu       sync.Mutex          // protects the following field
	received []receivedStatement // statements that were not checked yet
}

// receivedStatement is a Statement of another node.
type receivedStatement struct {
	node      string
	statement selfcheck.Statement
}

// Statement returns the current statement of this node. Any goroutine may call it.
func (m *Monitor) Statement() selfcheck.Statement { return m.options.Statement() }

// addContradictions checks this node and the statements that it has received, and adds the contradictions to in.
func (m *Monitor) addContradictions(ctx context.Context, now time.Time, in *diagnosis.Inputs, isUpToDate bool) {
	check := &m.selfCheck
	checker := &check.checker
	checker.ObserveStatement(now, in.Self, m.Statement())
	for _, received := range check.takeReceived() {
		checker.ObserveStatement(now, received.node, received.statement)
	}
	checker.ObserveMap(now, m.options.Router.State().Committed())
	end := m.options.Router.LeaseEnd() // read before the limit, which only grows
	checker.ObserveLease(now, end, m.options.Agent.LeaseGrantedUntil())
	var members selfcheck.Members
	if isUpToDate && in.HasMap {
		members = m.members(in)
	}
	in.Contradictions = checker.Report(now, members)
	if in.Leader == in.Self && now.Sub(check.queriedAt) >= statementEvery {
		m.queryStatement(ctx, now)
	}
}

// members returns the members of the cluster according to the log of this node.
func (m *Monitor) members(in *diagnosis.Inputs) selfcheck.Members {
	// The last entry is read before the servers, which are then at least as new.
	term := m.options.View.Raft.Term()
	logTerm, _ := m.options.View.Raft.LastEntry()
	voters, nonvoters := m.options.Servers()
	members := selfcheck.Members{
		Term: term, LogTerm: logTerm, Leader: in.Leader, Owners: m.replaceableOwners(in),
		RemovalTime: m.options.View.Timing().DeadAfter + removalMargin,
	}
	for _, server := range voters {
		members.Voters = append(members.Voters, consensus.NodeOf(server))
	}
	members.All = slices.Clone(members.Voters)
	for _, server := range nonvoters {
		members.All = append(members.All, consensus.NodeOf(server))
	}
	return members
}

// replaceableOwners returns the nodes to which the newest proposed map assigns shards, except nodes that restart in
// place. It returns none if no other member can get their shards, because the leader then keeps the map. A node that
// the proposed map excludes is not returned: the leader is removing it, and may have to wait for other nodes.
func (m *Monitor) replaceableOwners(in *diagnosis.Inputs) (owners []string) {
	state := m.options.State()
	canReceive := false
	for _, member := range state.Proposed().Members() {
		i := slices.IndexFunc(in.Nodes, func(node diagnosis.Node) bool { return node.ID == string(member.ID) })
		isDrained := state.Policy().DrainsAll(member.ID, member.Instances)
		canReceive = canReceive || i >= 0 && !isDrained && canReceiveShards(&in.Nodes[i])
		if state.Proposed().ShardCount(member.ID) > 0 && !state.Restarting(member.ID) {
			owners = append(owners, string(member.ID))
		}
	}
	if !canReceive {
		return nil
	}
	return owners
}

// canReceiveShards reports whether no known condition prevents the node from getting more shards.
func canReceiveShards(node *diagnosis.Node) bool {
	isReady := node.Alive && !node.Gateway && !node.Stopping && !node.Restarting && !node.Lagging
	isHealthy := node.App == diagnosis.AppHealthy && len(node.UnhealthyInstances) == 0 && !node.CannotAcquire && node.NoShardsFor == 0
	return isReady && isHealthy && !node.Drained && !node.Cordoned && !node.MarkedFailed
}

// queryStatement queries the Statement of the next alive node in the background.
func (m *Monitor) queryStatement(ctx context.Context, now time.Time) {
	check := &m.selfCheck
	check.queriedAt = now
	nodes := m.options.View.OtherAliveNodes()
	if len(nodes) == 0 {
		return
	}
	slices.Sort(nodes)
	next := slices.IndexFunc(nodes, func(node string) bool { return node > check.lastQueried })
	node := nodes[max(next, 0)]
	check.lastQueried = node
	m.background.Go(func() {
		queryCtx, cancel := context.WithTimeout(ctx, leaderloop.ViewTimeout)
		defer cancel()
		var statement selfcheck.Statement
		if err := m.options.Client.Call(queryCtx, node, control.Request{Kind: control.Statement}, &statement); err == nil {
			check.receive(node, statement)
		}
	})
}

// receive stores the statement of another node until the next check.
func (c *selfCheck) receive(node string, statement selfcheck.Statement) {
	if !statement.IsValid() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.received = append(c.received, receivedStatement{node, statement})
}

// takeReceived returns the statements that were received since the last call.
func (c *selfCheck) takeReceived() []receivedStatement {
	c.mu.Lock()
	defer c.mu.Unlock()
	received := c.received
	c.received = nil
	return received
}
