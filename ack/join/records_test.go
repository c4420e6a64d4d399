package join_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"shardway/ack/join"
)

const timeout = time.Minute

// clusterLog is a log of changes, and the leader that appends them.
type clusterLog struct {
	t        *testing.T
	records  join.Records
	index    uint64
	now      time.Duration
	approval *join.Approval
	expect   int
	servers  []join.ServerState
}

// newLog returns the log of a cluster with one member, whose bootstrap has ended.
func newLog(t *testing.T) *clusterLog {
	t.Helper()
	l := &clusterLog{t: t, expect: 1, servers: []join.ServerState{{Server: "a/1", HasCaughtUp: true, IsActive: true}}}
	l.elect()
	l.tick()
	return l
}

// elect begins the term of another leader.
func (l *clusterLog) elect() {
	l.approval = join.NewApproval(join.Options{Manual: true, Timeout: timeout, BootstrapExpect: l.expect})
}

// apply appends changes to the log, and checks that the records survive a snapshot.
func (l *clusterLog) apply(changes ...join.Change) (hasChanged bool) {
	l.t.Helper()
	decoded, err := join.DecodeChanges(join.AppendChanges(nil, changes))
	if err != nil || len(changes) > 0 && !slices.Equal(decoded, changes) {
		l.t.Fatalf("decoded %+v as %+v: %v", changes, decoded, err)
	}
	l.index++
	l.records, hasChanged = l.records.Apply(l.index, changes)
	snapshot := l.records.Append(nil)
	restored, err := join.DecodeRecords(snapshot)
	if err != nil || string(restored.Append(nil)) != string(snapshot) {
		l.t.Fatalf("snapshot of %+v: %v", l.records, err)
	}
	l.records = restored
	return hasChanged
}

// tick applies the changes that are due, until there are none.
func (l *clusterLog) tick() {
	l.t.Helper()
	for range 10 {
		changes := l.approval.DueChanges(l.now, l.records, l.servers)
		if len(changes) == 0 {
			return
		}
		l.apply(changes...)
	}
	l.t.Fatalf("the leader does not stop: %+v", l.approval.DueChanges(l.now, l.records, l.servers))
}

// request lets a process of a server request to join.
func (l *clusterLog) request(server string, boot uint64) error {
	l.t.Helper()
	change, needed, err := l.approval.RequestChange(l.records, server, boot)
	if err == nil && needed && !l.apply(change) {
		l.t.Fatalf("the request of %s is ignored", server)
	}
	return err
}

// decide applies the decision of an operator.
func (l *clusterLog) decide(decision join.Decision) error {
	l.t.Helper()
	change, err := join.Decide(l.records, decision)
	if err == nil && !l.apply(change) {
		l.t.Fatalf("the decision %+v is ignored", decision)
	}
	return err
}

// expectStage checks the stage of a server. Zero means that it has no record.
func (l *clusterLog) expectStage(server string, stage join.Stage) {
	l.t.Helper()
	record, exists := l.records.Of(server)
	if record.Stage != stage || exists != (stage != 0) {
		l.t.Errorf("%s is %v, want %v", server, record.Stage, stage)
	}
	if mayAdd := l.approval.MayAdd(l.records, server); mayAdd != stage.IsAdmitted() {
		l.t.Errorf("may add %s, which is %v: %v", server, stage, mayAdd)
	}
}

// A server passes all stages. Each leader continues where the previous one has stopped.
func TestApprovedServerPassesAllStages(t *testing.T) {
	l := newLog(t)
	for range 2 {
		if err := l.request("b/1", 3); err != nil {
			t.Fatal(err)
		}
		l.elect()
		l.tick()
		l.expectStage("b/1", join.Requested)
	}
	record, _ := l.records.Undecided("b")
	if err := l.decide(join.Decision{Node: "b", Approve: true, Ticket: record.Ticket, Reason: "new hardware"}); err != nil {
		t.Fatal(err)
	}
	accepted := l.index
	l.elect()
	l.tick()
	l.expectStage("b/1", join.Accepted)
	l.servers = append(l.servers, join.ServerState{Server: "b/1"})
	l.elect()
	l.tick()
	l.expectStage("b/1", join.Accepted)
	l.servers[1].HasCaughtUp = true
	l.tick()
	l.expectStage("b/1", join.Synchronized)
	l.servers[1].IsActive = true
	l.elect()
	l.tick()
	l.expectStage("b/1", join.Active)
	record, _ = l.records.Of("b/1")
	if record.EffectiveIndex != accepted || record.Reason != "new hardware" || record.Boot != 3 || len(record.History) != 4 {
		t.Errorf("%+v", record)
	}
	l.servers = l.servers[:1] // it leaves
	l.now += 10 * timeout
	l.tick()
	l.expectStage("b/1", join.Active) // and needs no approval when it returns
	if err := l.request("b/1", 4); err != nil {
		t.Fatal(err)
	}
	l.expectStage("b/1", join.Active)
}

// A refused server is not added, also after restarts and elections, until an operator approves it.
func TestRefusedServerIsNotAdded(t *testing.T) {
	l := newLog(t)
	_ = l.request("b/1", 1)
	if err := l.decide(join.Decision{Node: "b", Reason: "unknown"}); err != nil {
		t.Fatal(err)
	}
	l.elect()
	for boot := range uint64(3) {
		l.now += 2 * timeout
		if err := l.request("b/1", boot+2); err != nil {
			t.Fatal(err)
		}
		l.tick()
		l.expectStage("b/1", join.Refused)
	}
	if err := l.decide(join.Decision{Node: "b"}); !errors.Is(err, join.ErrRefused) {
		t.Error(err)
	}
	if err := l.decide(join.Decision{Node: "b", Approve: true}); err != nil {
		t.Fatal(err)
	}
	l.expectStage("b/1", join.Accepted)
}

// A request expires when one leader has waited for the timeout. Only a later process requests again.
func TestRequestExpires(t *testing.T) {
	l := newLog(t)
	_ = l.request("b/1", 1)
	l.tick()
	l.now += timeout - 1
	l.tick()
	l.expectStage("b/1", join.Requested)
	l.elect() // this leader starts the timeout again
	l.tick()
	l.now += timeout - 1
	l.tick()
	l.expectStage("b/1", join.Requested)
	ticket, _ := l.records.Undecided("b")
	if left := l.approval.RemainingTime(l.now, ticket); left != 1 {
		t.Errorf("remaining time %v", left)
	}
	l.now++
	l.tick()
	l.expectStage("b/1", join.Expired)
	if err := l.decide(join.Decision{Node: "b", Approve: true}); !errors.Is(err, join.ErrExpired) {
		t.Error(err)
	}
	if err := l.request("b/1", 1); err != nil {
		t.Fatal(err)
	}
	l.expectStage("b/1", join.Expired)
	_ = l.request("b/1", 2)
	l.expectStage("b/1", join.Requested)
	if l.apply(join.Change{Kind: join.Expire, Server: "b/1", Ticket: ticket.Ticket}) {
		t.Error("the timeout of the first request has ended the second one")
	}
	if err := l.decide(join.Decision{Node: "b", Approve: true, Ticket: ticket.Ticket}); !errors.Is(err, join.ErrTicket) {
		t.Error(err)
	}
}

// A replaced disk is a new request, and the old disk stays admitted until the new one is accepted.
func TestReplacedDiskIsANewRequest(t *testing.T) {
	l := newLog(t)
	_ = l.request("b/1", 1)
	_ = l.decide(join.Decision{Node: "b", Approve: true})
	_ = l.request("b/2", 1)
	l.expectStage("b/2", join.Requested)
	l.expectStage("b/1", join.Accepted)
	_ = l.request("b/3", 1) // replaces the open request of the node
	l.expectStage("b/2", 0)
	l.servers = append(l.servers, join.ServerState{Server: "b/1", HasCaughtUp: true, IsActive: true})
	l.tick()
	l.expectStage("b/1", join.Active)
	_ = l.decide(join.Decision{Node: "b", Approve: true})
	l.tick() // the old server is still in the configuration
	l.expectStage("b/3", join.Accepted)
	l.expectStage("b/1", 0)
}

// Decisions about members and unknown nodes are refused.
func TestDecisionsWithoutRequest(t *testing.T) {
	l := newLog(t)
	for node, want := range map[string]error{"a": join.ErrIsMember, "x": join.ErrNoRequest} {
		for _, approve := range []bool{false, true} {
			if err := l.decide(join.Decision{Node: node, Approve: approve}); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", node, err, want)
			}
		}
	}
}

// Open requests, closed requests and admitted servers are bounded.
func TestNumberOfRecordsIsBounded(t *testing.T) {
	l := newLog(t)
	for i := range join.MaxOpen {
		if err := l.request(fmt.Sprintf("n%d/1", i), 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.request("z/1", 1); !errors.Is(err, join.ErrFull) {
		t.Error(err)
	}
	if l.apply(join.Change{Kind: join.Request, Server: "z/1", Boot: 1}) {
		t.Error("the log accepts more requests than the limit")
	}
	for i := range 3 * join.MaxClosed {
		server := fmt.Sprintf("n%d/1", i)
		_ = l.request(server, 1)
		if err := l.decide(join.Decision{Node: join.NodeOf(server)}); err != nil {
			t.Fatal(err)
		}
	}
	if refused := l.records.Count(join.Refused); refused != join.MaxClosed {
		t.Errorf("%d refused requests", refused)
	}
	var changes []join.Change
	for i := range join.MaxAdmitted + 8 {
		changes = append(changes, join.Change{Kind: join.Import, Server: fmt.Sprintf("m%d/1", i)})
	}
	for batch := range slices.Chunk(changes, join.MaxChanges) {
		l.apply(batch...)
	}
	if active := l.records.Count(join.Active); active != join.MaxAdmitted {
		t.Errorf("%d admitted servers", active)
	}
}

// The first nodes of a new cluster need no approval. Later ones do, also when fewer nodes are left.
func TestBootstrapNodesNeedNoApproval(t *testing.T) {
	l := &clusterLog{t: t, expect: 3, servers: []join.ServerState{{Server: "a/1"}}}
	l.elect()
	for i, server := range []string{"b/1", "c/1", "d/1"} {
		_ = l.request(server, 1)
		l.elect() // the leader changes between the request and its acceptance
		l.tick()
		if i < 2 {
			l.expectStage(server, join.Accepted)
		}
	}
	l.expectStage("d/1", join.Requested)
	_ = l.request("c/2", 1) // a bootstrap node with another disk
	l.tick()
	l.expectStage("c/2", join.Accepted)
	l.servers = append(l.servers, join.ServerState{Server: "b/1"}, join.ServerState{Server: "c/2"})
	l.tick()
	l.servers = l.servers[:1]
	l.elect()
	l.tick()
	l.expectStage("d/1", join.Requested)
	if !l.records.BootstrapEnded() {
		t.Error("the bootstrap has not ended")
	}
}

// After a recovery, the cluster has one server. The nodes that it expected at its bootstrap must not join without an
// approval.
func TestNodesOfRecoveredClusterNeedApproval(t *testing.T) {
	l := &clusterLog{t: t, expect: 3, servers: []join.ServerState{{Server: "a/1"}}, records: join.ForRecoveredCluster()}
	l.elect()
	_ = l.request("b/1", 1)
	l.tick()
	l.expectStage("b/1", join.Requested)
}

// A cluster that changes from automatic to manual approval imports its members, with requests of earlier terms.
func TestMembersAreImported(t *testing.T) {
	l := newLog(t)
	_ = l.request("b/1", 1)
	automatic := join.NewApproval(join.Options{})
	if !automatic.MayAdd(l.records, "b/1") || automatic.DueChanges(l.now, l.records, l.servers) != nil {
		t.Error("automatic approval waits")
	}
	l.servers = append(l.servers, join.ServerState{Server: "b/1"}, join.ServerState{Server: "c/1"})
	l.now += 2 * timeout
	l.tick()
	l.expectStage("b/1", join.Active)
	l.expectStage("c/1", join.Active)
}

// Removal of a node ends its admission. A recovered cluster keeps no admission.
func TestRemovalEndsTheAdmission(t *testing.T) {
	l := newLog(t)
	_ = l.request("b/1", 1)
	_ = l.decide(join.Decision{Node: "b", Approve: true})
	removed, hasChanged := l.records.WithoutNode("b")
	if !hasChanged || removed.IsAdmitted("b/1") || !removed.IsAdmitted("a/1") {
		t.Errorf("%+v", removed.All())
	}
	if recovered := join.ForRecoveredCluster(); len(recovered.All()) > 0 || !recovered.BootstrapEnded() {
		t.Errorf("%+v", recovered)
	}
}

func FuzzDecode(f *testing.F) {
	l := clusterLog{t: &testing.T{}}
	l.apply(join.Change{Kind: join.Request, Server: "b/1", Boot: 1, UnixMilli: 5}, join.Change{Kind: join.EndBootstrap})
	f.Add(l.records.Append(nil))
	f.Add(join.AppendChanges(nil, []join.Change{{Kind: join.Refuse, Server: "b/1", Ticket: 1, Reason: "x"}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		if changes, err := join.DecodeChanges(data); err == nil && string(join.AppendChanges(nil, changes)) != string(data) {
			t.Errorf("changes %+v have two encodings", changes)
		}
		if records, err := join.DecodeRecords(data); err == nil && string(records.Append(nil)) != string(data) {
			t.Errorf("records %+v have two encodings", records)
		}
	})
}
