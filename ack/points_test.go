package ack_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// point is one clause of the protocol, with the proof that it is needed: the mutants that
// omit it, or, where the simulation cannot show it, an explanation. If a second rule prevents
// the same harm, the mutant omits both, and its name or its edits say so.
type point struct {
	of        string // "reason 1" to "reason 22", "rule 1" to "rule 10", "leases" and so on
	clause    string
	planted   []string // names of mutants
	explained string
}

// points are those of the protocol pages: the reason of each rule, in order, then the rules of
// a map change, then leases and membership. The faults of the predecessor are among the
// rules.
func points() []point {
	return slices.Concat(pointsOfReasons(), pointsOfLiveness(), pointsOfRules(), pointsOfLeases(), pointsOfTiming(), pointsOfKeys(), pointsOfHooks(), pointsOfReleases(), pointsOfPolicy(), pointsOfRestarts(), pointsOfKeptNotes(), pointsOfDepartures(), pointsOfLevels(), pointsOfSuspicion(), pointsOfApps(), pointsOfInstances(), pointsOfServices(), pointsOfStandbys(), pointsOfReach(), pointsOfRoles())
}

func pointsOfReasons() []point {
	return []point{
		{
			of: "reason 1", clause: "a new boot frees shards only if an older one was heard in this term",
			planted: []string{
				"reason 1: the first boot that a leader receives counts as a new one",
			},
		},
		{of: "reason 1", clause: "and only if it has had no lease yet", planted: []string{"reason 1: shards of a new boot that has a lease are taken"}},
		{of: "reason 2", clause: "a message counts only for the leader of exactly the term it names", planted: []string{
			"reason 2: a leader accepts heartbeats of a newer term, and answers of old terms count",
			"reason 2: a leader accepts heartbeats of an older term, and duplicates are not detected",
		}},
		{of: "reason 3", clause: "requests are cut some time after the end of the lease", planted: []string{"reason 3: requests are never cut after the end of the lease"}},
		{of: "reason 3", clause: "and 15 % before another node may take the shard", planted: []string{"reason 3: the cut time counts from the lease, not from its grant"}},
		{of: "reason 4", clause: "boots are ordered", planted: []string{"reason 4: boots are random and duplicates are not detected"}},
		{of: "reason 5", clause: "the leader reads its own term around each use", planted: []string{"reason 5: the leader counts itself without reading its term"}},
		{of: "reason 6", clause: "an echo names its term", planted: []string{"reason 6: an echo without its term"}},
		{of: "reason 6", clause: "and is read before the Raft term", planted: []string{"reason 6: the term is read before the echo, and answers of old terms count"}},
		{of: "reason 7", clause: "evidence names a boot", planted: []string{"reason 7: late evidence counts against the next boot", "another process keeps the boot, and evidence names no process", "evidence names no process"}},
		{of: "reason 7", clause: "a goodbye names a boot", planted: []string{"reason 7: a goodbye outlives its boot"}},
		{of: "reason 7", clause: "a heartbeat voids evidence", planted: []string{"reason 7: a heartbeat does not void evidence"}},
		{
			of: "reason 8", clause: "false evidence never gives two admissions under takeover lease",
			planted: []string{
				"crash evidence alone frees shards under takeover lease",
				"the clock rate tolerance is zero",
			},
		},
		{of: "reason 8", clause: "and gives nothing under timeout", planted: []string{"crash evidence shortens dead-after under takeover timeout"}},
		{
			of: "reason 8", clause: "requests that x runs continue while the new owner serves",
			explained: "No rule prevents it: it is the second exception of G1. The coverage counts it separately as \"excused: ran beside, refusal forged\".",
		},
		{of: "reason 9", clause: "the state sets ownership epochs", planted: []string{"reason 9: ownership epochs follow the last proposal"}},
		{
			of: "reason 9", clause: "the state checks the base",
			planted: []string{
				"reason 9: the base of a proposal is not checked, and the leader proposes while a commit is in transit",
			},
		},
		{of: "reason 10", clause: "nothing is granted before the barrier", planted: []string{"reason 10: grants before the barrier is applied"}},
		{of: "reason 10", clause: "nothing is proposed before the barrier", planted: []string{"reason 10: proposes before the barrier is applied"}},
		{of: "reason 10", clause: "the start of the barrier is the first Q, not its end", planted: []string{"Q begins when the barrier is applied, not when it was issued"}},
		{of: "reason 11", clause: "acknowledgements belong to a boot", planted: []string{"reason 11: acknowledgements of an old boot count for the new one"}},
		{of: "reason 11", clause: "while a commit is in transit, leases need its epoch", planted: []string{"reason 11: a lease for the old epoch while a commit is in transit"}},
		{of: "reason 11", clause: "a lease counts from when its heartbeat was sent", planted: []string{"reason 11: the lease counts from the arrival of its answer"}},
		{of: "reason 11", clause: "Q counts voters only", planted: []string{"reason 11: nonvoters count in Q"}},
		{of: "reason 11", clause: "a node drains before it acknowledges", planted: []string{"reason 11: the node acknowledges before the drain"}},
		{of: "reason 11", clause: "silent owners keep their shards until they cannot serve", planted: []string{"reason 11: silent owners are dropped without a wait"}},
		{of: "reason 11", clause: "a new leader waits for the leases of the old one", planted: []string{"reason 11: a new leader does not wait for the leases of the old one"}},
	}
}

func pointsOfLiveness() []point {
	return []point{
		{
			of: "reason 12", clause: "a map equal to the committed one is proposed again, because that ends the round",
			planted: []string{
				"reason 12: a map equal to the committed one ends the round without a proposal",
			},
		},
		{of: "reason 13", clause: "the acknowledged epoch is a state", planted: []string{"reason 13: an epoch already committed is never acknowledged"}},
		{of: "reason 14", clause: "a dropped node that does not acknowledge gets no grants", planted: []string{"reason 14: a live node that does not acknowledge keeps its lease"}},
		{of: "reason 14", clause: "nor does a node that is excluded for another reason", planted: []string{"reason 14: the leader waits for a leaving or unhealthy node that does not acknowledge"}},
		{of: "reason 14", clause: "it is eligible again only after it has acknowledged the proposal that dropped it", planted: []string{"reason 14: a live node that does not acknowledge is eligible at once"}},
		{of: "reason 15", clause: "a node is live if it echoes a fresh answer", planted: []string{"reason 15: a node that sends heartbeats is eligible without echoes"}},
		{of: "reason 15", clause: "and without such an echo it gets no lease", planted: []string{"reason 15: an excluded node that receives no answers gets leases"}},
		{of: "reason 16", clause: "the applied epoch has a deadline", planted: []string{"reason 16: a node that never applies the commit stays"}},
		{of: "reason 17", clause: "a leader stuck before its barrier steps down", planted: []string{"reason 17: a leader stuck before its barrier stays"}},
		{of: "reason 17", clause: "a refused barrier is repeated", planted: []string{"reason 17: a refused barrier is not repeated"}},
		{of: "reason 17", clause: "and continues if no server takes over", planted: []string{"reason 17: a leader stops after a leadership transfer that failed"}},
		{of: "reason 18", clause: "members of the last map count as present after an election", planted: []string{"reason 18: only members that have sent heartbeats are proposed"}},
		{
			of: "reason 19", clause: "refusals between proxies have reasons and back off",
			explained: "The model has no forwarding node: forwarding is not serving, so it cannot violate a guarantee. Needed: see " +
				"TestIngressWaitsForTheOwnersEpochs of package proxy and TestBackOffEndsAfterItsLimit of package queue.",
		},
		{
			of: "reason 20", clause: "two voters never become one automatically",
			explained: "A defect of the Raft library, which the Raft of the model does not have. Needed: package node refuses it, and " +
				"TestAllStoppedAndAnyTwoRestartedServe shows that stopping changes no voters.",
		},
	}
}

func pointsOfRules() []point {
	return []point{
		{
			of: "rule 1", clause: "a new round cancels the timer of the old one (first fault of the predecessor)",
			planted: []string{
				"rule 1, the predecessor: the timer of the old round continues",
			},
		},
		{of: "rule 1", clause: "nothing is proposed while an own commit is in transit", planted: []string{"rule 1: proposes while a commit is in transit"}},
		{
			of: "G3", clause: "only a committed map routes (second fault of the predecessor)",
			planted: []string{
				"G3, the predecessor: a proposal routes before it is committed",
				"requests for moving shards do not wait",
			},
		},
		{of: "rule 2", clause: "a commit names the last proposal", planted: []string{"rule 2: any commit commits the last proposal"}},
		{of: "rule 2", clause: "entries count in their own term only", planted: []string{"rule 2: a commit counts in any term", "rule 2: a proposal counts in any term"}},
		{
			of: "rule 2", clause: "a commit whose digest differs is void",
			explained: "The epoch is the index of the proposal, and an index has one entry: two maps of one epoch require a log that violates a guarantee of " +
				"Raft, or a defect of WithEpoch. Redundant, kept because it costs nothing; TestCommitCountsOnce.",
		},
		{
			of: "rule 3", clause: "a dead node is never proposed again (third fault of the predecessor)",
			planted: []string{
				"rule 3, the predecessor: a dead node is proposed again",
				"G4: the committed map is proposed again with its dead members",
			},
		},
		{of: "rule 3", clause: "a node needs three fresh heartbeats after the drop", planted: []string{
			"rule 3: one heartbeat brings a dropped node back", "heartbeats from before a drop bring a node back", "leases: a repeated heartbeat counts again",
		}},
		{of: "rule 3", clause: "a node must have acknowledged the committed map", planted: []string{"rule 3: a node that has not acknowledged the committed map is proposed"}},
		{
			of: "rule 3", clause: "a node must have a lease",
			explained: "It saves the time for which the shards of a new node would wait for its first lease, and has no other effect: " +
				"TestNewcomerHasALeaseWhenItsShardsCome of package node.",
		},
		{
			of: "rule 3", clause: "a node that misses acknowledgements repeatedly returns later each time",
			explained: "It limits the effect of a slow node on the other nodes, and is not needed for a guarantee: TestNodeThatMissesAcknowledgementsReturnsLaterEachTime. The coverage " +
				"counts damped drops.",
		},
		{of: "rule 4", clause: "a new leader always runs a round", planted: []string{"rule 4: the proposal of the previous leader remains open"}},
		{of: "rule 4", clause: "a leader that gets no acknowledgements steps down", planted: []string{"map change: a leader that gets no acknowledgements stays"}},
		{of: "rule 4", clause: "and so does a leader whose entry is not applied", planted: []string{"a leader waits forever for an entry that is not applied"}},
		{of: "G4", clause: "a commit has every acknowledgement of its members", planted: []string{"G4: a commit does not wait for its members"}},
		{
			of: "G4", clause: "and of every owner that may still serve",
			planted: []string{
				"G4: a commit does not wait for owners that it leaves out",
				"shards of a leaving node are taken before its goodbye",
			},
		},
		{of: "G4", clause: "a member that does not acknowledge is dropped", planted: []string{"G4: the leader waits for a node that misses the deadline"}},
		{of: "batching", clause: "the first map waits for the founding nodes", planted: []string{"batching: the first map is proposed before all founding nodes are eligible"}},
		{of: "batching", clause: "but not forever", planted: []string{"batching: the first map waits forever for the founding nodes"}},
		{of: "batching", clause: "additions are delayed for a while", planted: []string{"batching: additions are delayed forever"}},
		{of: "batching", clause: "and a loss ends the delay at once", planted: []string{"batching: a loss is delayed, too"}},
		{of: "rule 5", clause: "whether a shard may be taken is decided when the commit is submitted", planted: []string{"rule 5: a shard that could be taken earlier is taken later"}},
		{
			of: "rule 5", clause: "a forwarding node gives up requests to a node whose shards are taken",
			explained: "The model has no forwarding node, see reason 19. TestDialEndsWhenShardMoves of package proxy.",
		},
		{
			of: "rule 6", clause: "a shard that was released and does not move is acquired again, under its epoch",
			explained: "Every commit checks that its epoch stays (G10), see reason 9.",
		},
		{of: "rule 7", clause: "a drain is cut", planted: []string{"rule 7: a drain is never cut"}},
		{of: "rule 8", clause: "snapshots hold all", planted: []string{"rule 8: snapshots forget an open proposal", "rule 8: snapshots forget drops"}},
		{
			of: "rule 9", clause: "a barrier follows each entry",
			explained: "It saves time (49 ms instead of 191 ms) and has no other effect: in the model commits arrive late or never, and the guarantees hold.",
		},
		{of: "rule 10", clause: "when every member drains, the last map stays", planted: []string{"rule 10: without a remaining member, shards have no owner"}},
	}
}

// pointsOfTiming are about the timing of the cluster.
func pointsOfTiming() []point {
	return []point{
		{of: "G11", clause: "with rebalance mode stop-the-world, all requests wait during a proposal", planted: []string{"stop-the-world: only requests for moving shards wait"}},
		{
			of: "G11", clause: "until a map of the leader that granted the lease is committed",
			planted: []string{"stop-the-world: a map of any leader ends the pause", "stop-the-world: a lease of another leader does not end the pause"},
		},
		{of: "timing", clause: "a node obeys the answer, not its flags", planted: []string{"timing: a node obeys its flags"}},
		{of: "timing", clause: "and a leader obeys the state", planted: []string{"timing: a leader waits and grants by its flags"}},
		{of: "timing", clause: "nothing is granted by a timing that is not committed", planted: []string{"timing: a leader grants by a timing that is not committed"}},
		{of: "timing", clause: "every wait takes the larger of two", planted: []string{"timing: a leader waits by the timing in force, though it is shorter"}},
		{of: "timing", clause: "and the later one of two takeover policies", planted: []string{"timing: of two takeover policies, the one in force counts alone"}},
		{of: "timing", clause: "the next change waits until the previous one is complete", planted: []string{"timing: changes follow each other at once"}},
		{of: "timing", clause: "and each leader counts that time from its election", planted: []string{"timing: a new leader counts the time before its election"}},
		{of: "timing", clause: "a change names what it replaces", planted: []string{"timing: two changes replace the same one"}},
		{
			of: "timing", clause: "and its term",
			explained: "The timing that it replaces must still be in force, so no leader between the two terms has changed it, and the waiting time had " +
				"passed when the leader decided on it. Redundant, like the digest of rule 2; TestOnlyTheNextTimingCounts.",
		},
		{of: "rule 8", clause: "snapshots hold both timings", planted: []string{"rule 8: snapshots forget the previous timing"}},
	}
}

func pointsOfLeases() []point {
	return []point{
		{of: "leases", clause: "heartbeats of a lower boot are ignored", planted: []string{"leases: a heartbeat of a lower boot counts, and duplicates are not detected"}},
		{of: "leases", clause: "an answer to another boot does not count", planted: []string{"an answer to another boot counts"}},
		{
			of: "leases", clause: "a node that learns of a higher boot takes the next one",
			planted: []string{
				"leases: a node that learns of a higher boot keeps its own",
			},
		},
		{of: "leases", clause: "nothing is granted beyond Q + lease", planted: []string{"a lease is granted beyond Q"}},
		{of: "leases", clause: "voters are those of the latest configuration", planted: []string{"the voters are those of the election"}},
		{of: "leases", clause: "the first lease of a boot needs a later Q", planted: []string{"the first lease of a boot needs no later Q"}},
		{
			of: "leases", clause: "no lease after a goodbye, none for a gateway",
			planted: []string{
				"leases: a node gets leases after its goodbye",
				"leases: a gateway gets leases",
			},
		},
		{of: "leases", clause: "OK to the last map proposed, and to nothing else", planted: []string{"G5: every acknowledgement is answered with OK"}},
		{of: "leases", clause: "the lease is checked again before the first byte", planted: []string{"the lease is not looked at again before the first byte"}},
		{
			of: "leases", clause: "a second process under a node's id waits for the first",
			explained: "With a disk of its own, it is admitted to Raft only when nothing runs under the name, see membership. The leader checks again, because " +
				"the first process may return. Redundant: TestSecondProcessUnderANameIsRefused, TestAnotherDiskWaitsForRequestsOfTheFirst, " +
				"TestNodeWithoutEchoWaitsForLeasesOfThePreviousLeader. The check itself is half of reason 2 and reason 4.",
		},
		{
			of: "leases", clause: "restart_grace makes the leader wait for a return, and its own pauses make no node silent",
			explained: "Both save moves and have no other effect: one schedule in ten has a grace period; TestPausedLeaderDropsNoNode, " +
				"TestPauseDoesNotCountAgainstAcknowledgements.",
		},
		{
			of: "leases", clause: "a clock that jumped voids the lease",
			explained: "In the model, as docs/internals/protocol.md assumes, a clock continues while its process is stopped, so the end of the lease is detected anyway. Needed " +
				"where the clock of a virtual machine stops with it: TestPauseVoidsTheLease.",
		},
		{of: "leases", clause: "evidence comes from a redial begun after the election", planted: []string{"leases: evidence found before the election counts after it"}},
		{
			of: "leases", clause: "a node listens before its first heartbeat",
			explained: "Without the rule, a redial may be refused although a new boot already sends heartbeats. The refusal concerns the boot whose connection broke, see " +
				"reason 7. The rule saves a round.",
		},
		{
			of: "leases", clause: "the statement of an operator applies to a node without heartbeats",
			planted: []string{
				"the statement of an operator counts against a live node and during its lease",
				"a statement of an operator frees shards during a lease",
				"the statement of an operator outlives the return of the node",
			},
		},
		{of: "membership", clause: "a name goes to another disk when its shards may be taken", planted: []string{
			"membership: a node's name goes to another disk once it is not heard", "membership: crash evidence frees a node's name under takeover timeout",
		}},
		{of: "membership", clause: "a server becomes a voter if it echoes the answers of the leader", planted: []string{"membership: who was only heard gets a vote"}},
		{of: "membership", clause: "a server writes to disk before it answers", planted: []string{
			"membership: a vote is given before it is synced", "membership: entries are acknowledged before they are synced", "leases: a boot is stated before it is synced",
		}},
		{of: "bootstrap", clause: "a cluster is bootstrapped once", planted: []string{"bootstrap: a cluster is bootstrapped twice"}},
		{of: "membership", clause: "another disk is another server", planted: []string{"membership: a wiped disk votes under the name of the old one"}},
	}
}

// Every point is planted or explained, and every mutant belongs to a point. With -v this
// prints the table.
func TestEveryPointHasMutantOrExplanation(t *testing.T) {
	known := map[string]bool{}
	for _, m := range mutants() {
		if known[m.name] {
			t.Errorf("two mutants are called %q", m.name)
		}
		for caught := range strings.SplitSeq(m.caught, "|") {
			if caught == "" || caught == "G" {
				t.Errorf("%s: any failure would count: name those that do", m.name)
			}
		}
		known[m.name] = true
	}
	tests, met, used := testsOfPackages(t), map[string]bool{}, map[string]bool{}
	var table strings.Builder
	for _, p := range points() {
		met[p.of] = true
		if (len(p.planted) == 0) == (p.explained == "") {
			t.Errorf("%s: %s: want either mutants or an explanation", p.of, p.clause)
		}
		for _, name := range p.planted {
			used[name] = true
			if !known[name] {
				t.Errorf("%s: %s: no mutant is called %q", p.of, p.clause, name)
			}
		}
		fmt.Fprintf(&table, "%-9s  %s\n", p.of, p.clause)
		for _, name := range p.planted {
			fmt.Fprintf(&table, "%13s%s\n", "caught: ", name)
		}
		for _, name := range regexp.MustCompile(`Test[A-Z]\w+`).FindAllString(p.explained, -1) {
			if !tests[name] {
				t.Errorf("%s: %s: there is no %s", p.of, p.clause, name)
			}
		}
		if p.explained != "" {
			fmt.Fprintf(&table, "%13s%s\n", "not planted: ", p.explained)
		}
	}
	for i := range 22 {
		if of := fmt.Sprintf("reason %d", i+1); !met[of] {
			t.Errorf("reason %d of docs/internals/protocol-reasons.md is neither planted nor explained", i+1)
		}
	}
	for i := range 10 {
		if of := fmt.Sprintf("rule %d", i+1); !met[of] {
			t.Errorf("%s of docs/internals/protocol.md is neither planted nor explained", of)
		}
	}
	for name := range known {
		if !used[name] {
			t.Errorf("no point says what the mutant %q is about", name)
		}
	}
	t.Logf("%d points, %d mutants:\n%s", len(points()), len(known), table.String())
}

// testsOfPackages returns the names of all tests of this package and its neighbours.
func testsOfPackages(t *testing.T) map[string]bool {
	t.Helper()
	var files []string
	for _, pattern := range []string{"../*/*_test.go", "../*/*/*_test.go"} {
		list, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, list...)
	}
	names := map[string]bool{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(b, -1) {
			names[string(m[1])] = true
		}
	}
	return names
}
