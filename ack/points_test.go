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

// point is one clause of the protocol, with the proof that it is needed: the mistakes that
// omit it, or, where the simulation cannot show it, an explanation. If a second rule prevents
// the same harm, the mistake omits both, and its name or its edits say so.
type point struct {
	of        string // "why 1" to "why 22", "rule 1" to "rule 10", "leases" and so on
	clause    string
	planted   []string // names of mistakes
	explained string
}

// points are those of the protocol pages: the reason of each rule, in order, then the rules of
// a map change, then leases and membership. The mistakes of the predecessor are among the
// rules.
func points() []point {
	return slices.Concat(pointsOfWhy(), pointsOfLiveness(), pointsOfRules(), pointsOfLeases(), pointsOfTiming(), pointsOfKeys(), pointsOfHooks(), pointsOfReleases(), pointsOfPolicy(), pointsOfAbsence(), pointsOfKept(), pointsOfReturns(), pointsOfLevels(), pointsOfDoubt(), pointsOfApps())
}

func pointsOfWhy() []point {
	return []point{
		{
			of: "why 1", clause: "a new boot frees shards only if an older one was heard in this term",
			planted: []string{
				"why 1: the first boot that a leader hears passes for a new one",
			},
		},
		{of: "why 1", clause: "and only if it has had no lease yet", planted: []string{"why 1: a new boot that has a lease is free for taking"}},
		{of: "why 2", clause: "a message counts only for the leader of exactly the term it names", planted: []string{
			"why 2: a leader hears who is in a newer term, and answers of old terms count",
			"why 2: a leader hears who is in an older term, and nobody asks who else is there",
		}},
		{of: "why 3", clause: "what runs is cut, counted from the end of the lease", planted: []string{"why 3: what runs when the lease ends is never cut"}},
		{of: "why 3", clause: "and 15 % before anybody may take the shard", planted: []string{"why 3: what runs is cut dead-after from the lease, not from its grant"}},
		{of: "why 4", clause: "boots are ordered", planted: []string{"why 4: boots are random and nobody asks who else is there"}},
		{of: "why 5", clause: "the leader reads its own term around each use", planted: []string{"why 5: the leader counts itself without reading its term"}},
		{of: "why 6", clause: "an echo names its term", planted: []string{"why 6: an echo without its term"}},
		{of: "why 6", clause: "and is read before the Raft term", planted: []string{"why 6: the term is read before the echo, and answers of old terms count"}},
		{of: "why 7", clause: "evidence names a boot", planted: []string{"why 7: late evidence hits the next boot", "another process keeps the boot that was heard, and evidence names no process", "evidence names no process"}},
		{of: "why 7", clause: "a goodbye names a boot", planted: []string{"why 7: a goodbye outlives the boot that said it"}},
		{of: "why 7", clause: "a heartbeat voids evidence", planted: []string{"why 7: a heartbeat does not void evidence"}},
		{
			of: "why 8", clause: "false evidence never gives two admissions under takeover lease",
			planted: []string{
				"crash evidence is taken at its word under takeover lease",
				"clocks are taken to run alike",
			},
		},
		{of: "why 8", clause: "and gives nothing under timeout", planted: []string{"crash evidence shortens dead-after under takeover timeout"}},
		{
			of: "why 8", clause: "what x runs goes on beside the new owner",
			explained: "No rule prevents it: it is G1's second exception. The coverage counts it apart as \"excused: ran beside, refusal forged\".",
		},
		{of: "why 9", clause: "the state sets ownership epochs", planted: []string{"why 9: ownership epochs follow the last proposal"}},
		{
			of: "why 9", clause: "the state checks the base",
			planted: []string{
				"why 9: a proposal counts whatever it was computed from, and one is made while a commit is under way",
			},
		},
		{of: "why 10", clause: "nothing is granted before the barrier", planted: []string{"why 10: grants before the barrier is applied"}},
		{of: "why 10", clause: "nothing is proposed before the barrier", planted: []string{"why 10: proposes before the barrier is applied"}},
		{of: "why 10", clause: "the start of the barrier is the first Q, not its end", planted: []string{"Q begins when the barrier is applied, not when it was issued"}},
		{of: "why 11", clause: "acknowledgements belong to a boot", planted: []string{"why 11: acknowledgements of an old boot count for the new one"}},
		{of: "why 11", clause: "while a commit is under way leases need its epoch", planted: []string{"why 11: lease for the old epoch while a commit is under way"}},
		{of: "why 11", clause: "a lease counts from when its heartbeat was sent", planted: []string{"why 11: the lease counts from when its answer came"}},
		{of: "why 11", clause: "Q counts voters only", planted: []string{"why 11: nonvoters count in Q"}},
		{of: "why 11", clause: "a node drains before it acknowledges", planted: []string{"why 11: acknowledged before the drain"}},
		{of: "why 11", clause: "silent owners keep their shards until they cannot serve", planted: []string{"why 11: silent owners are just dropped"}},
		{of: "why 11", clause: "a new leader waits for the leases of the old one", planted: []string{"why 11: a new leader does not wait for the leases of the old one"}},
	}
}

func pointsOfLiveness() []point {
	return []point{
		{
			of: "why 12", clause: "equal to the committed map: propose again, for that ends the round",
			planted: []string{
				"why 12: equal to the committed map means nothing to do",
			},
		},
		{of: "why 13", clause: "the acknowledged epoch is a state", planted: []string{"why 13: an epoch already committed is never acknowledged"}},
		{of: "why 14", clause: "who is dropped and does not acknowledge gets no grants", planted: []string{"why 14: heard but not acknowledging keeps its lease"}},
		{of: "why 14", clause: "nor who is left out for another reason", planted: []string{"why 14: a leaving or sick node that does not acknowledge is waited for"}},
		{of: "why 14", clause: "back only after acknowledging the proposal that dropped it", planted: []string{"why 14: heard but not acknowledging counts as back at once"}},
		{of: "why 15", clause: "heard means echoing a fresh answer", planted: []string{"why 15: who is heard counts as there, answered or not"}},
		{of: "why 15", clause: "and without one there are no leases", planted: []string{"why 15: who is left out and cannot hear of its leases gets them, late or not"}},
		{of: "why 16", clause: "the applied epoch has a deadline", planted: []string{"why 16: who never applies the commit stays"}},
		{of: "why 17", clause: "a leader stuck before its barrier steps down", planted: []string{"why 17: a leader stuck before its barrier stays"}},
		{of: "why 17", clause: "a barrier that is refused is tried again", planted: []string{"why 17: a barrier that is refused is not tried again"}},
		{of: "why 17", clause: "and goes on if nobody takes over", planted: []string{"why 17: a leader whom nobody follows is done"}},
		{of: "why 18", clause: "members of the last map count as present after an election", planted: []string{"why 18: only members heard so far are proposed"}},
		{
			of: "why 19", clause: "refusals between proxies have reasons and back off",
			explained: "No ingress is in the model: forwarding is not serving, so it can break no invariant. Needed: see " +
				"TestIngressWaitsForTheOwnersEpochs of package proxy and TestBackOffEndsAfterItsLimit of package queue.",
		},
		{
			of: "why 20", clause: "two voters never become one by themselves",
			explained: "A defect of the Raft library, which the model's Raft does not have. Needed: package node refuses it, and " +
				"TestAllStoppedAndAnyTwoRestartedServe shows that stopping changes no voters.",
		},
	}
}

func pointsOfRules() []point {
	return []point{
		{
			of: "rule 1", clause: "a new round cancels the timer of the old one (the ancestor's first)",
			planted: []string{
				"rule 1, the ancestor: the timer of the old round goes on",
			},
		},
		{of: "rule 1", clause: "nothing is proposed while an own commit is under way", planted: []string{"rule 1: proposes while a commit is under way"}},
		{
			of: "G3", clause: "only a committed map routes (the ancestor's second)",
			planted: []string{
				"G3, the ancestor: a proposal routes before it is committed",
				"what moves is not held",
			},
		},
		{of: "rule 2", clause: "a commit names the last proposal", planted: []string{"rule 2: any commit commits the last proposal"}},
		{of: "rule 2", clause: "entries count in their own term only", planted: []string{"rule 2: a commit counts in any term", "rule 2: a proposal counts in any term"}},
		{
			of: "rule 2", clause: "a commit whose digest differs is void",
			explained: "The epoch is the index of the proposal, and an index has one entry: two maps of one epoch need a log that broke Raft's own " +
				"promise, or a defect of Settle. A second lock, kept because it is free; TestCommitCountsOnce.",
		},
		{
			of: "rule 3", clause: "a dead node is never proposed again (the ancestor's third)",
			planted: []string{
				"rule 3, the ancestor: a dead node is proposed again",
				"G4: the map that routes comes back with the dead it names",
			},
		},
		{of: "rule 3", clause: "three fresh heartbeats, heard after the drop", planted: []string{
			"rule 3: one heartbeat brings a dropped node back", "what was heard before a drop brings a node back", "leases: a heartbeat counts as often as it comes",
		}},
		{of: "rule 3", clause: "only who has acknowledged the committed map", planted: []string{"rule 3: who has not acknowledged the committed map is proposed"}},
		{
			of: "rule 3", clause: "only who has a lease",
			explained: "It saves the time for which a newcomer's shards would wait for its first lease, and decides nothing else: " +
				"TestNewcomerHasALeaseWhenItsShardsCome of package node.",
		},
		{
			of: "rule 3", clause: "who misses acknowledgements again and again returns later each time",
			explained: "It bounds what a slow node costs the others, no invariant: TestNodeThatMissesAcknowledgementsReturnsLaterEachTime. The coverage " +
				"counts damped drops.",
		},
		{of: "rule 4", clause: "a new leader always runs a round", planted: []string{"rule 4: what the leader before proposed is left open"}},
		{of: "rule 4", clause: "a leader whom nobody acknowledges steps down", planted: []string{"map change: a leader whom nobody acknowledges stays"}},
		{of: "rule 4", clause: "and so does one whose entry does not come back", planted: []string{"a leader waits for ever for an entry that does not come back"}},
		{of: "G4", clause: "a commit has every acknowledgement of its members", planted: []string{"G4: a commit does not wait for its members"}},
		{
			of: "G4", clause: "and of every owner that may still serve",
			planted: []string{
				"G4: a commit does not wait for owners that it leaves out",
				"a node leaves and its shards are taken before it says goodbye",
			},
		},
		{of: "G4", clause: "a member that does not acknowledge is dropped", planted: []string{"G4: who misses the deadline is waited for"}},
		{of: "gathering", clause: "the first map waits for those who found the cluster", planted: []string{"gathering: the first map is proposed before all who found the cluster are there"}},
		{of: "gathering", clause: "but not for ever", planted: []string{"gathering: the first map waits for them for ever"}},
		{of: "gathering", clause: "additions are gathered for a while", planted: []string{"gathering: additions are gathered for ever"}},
		{of: "gathering", clause: "and a loss ends that at once", planted: []string{"gathering: a loss is gathered too"}},
		{of: "rule 5", clause: "whether a shard may be taken is decided when the commit is submitted", planted: []string{"rule 5: what could be taken once is taken later"}},
		{
			of: "rule 5", clause: "an ingress gives up what it forwarded to a node that is taken from",
			explained: "No ingress is in the model, see why 19. TestConnectingEndsWhenTheShardLeaves of package proxy.",
		},
		{
			of: "rule 6", clause: "a shard released for nothing is acquired again, under its epoch",
			explained: "The hooks are not part of these machines. That its epoch stays is judged at every commit (G10), see why 9.",
		},
		{of: "rule 7", clause: "a drain is cut", planted: []string{"rule 7: a drain is never cut"}},
		{of: "rule 8", clause: "snapshots hold all", planted: []string{"rule 8: snapshots forget an open proposal", "rule 8: snapshots forget who was dropped"}},
		{
			of: "rule 9", clause: "a barrier follows each entry",
			explained: "It saves time (191 ms became 49 ms) and decides nothing: in the model commits travel late or never, and the invariants hold.",
		},
		{of: "rule 10", clause: "when every member drains, the last map stays", planted: []string{"rule 10: when nobody stays, nobody owns"}},
	}
}

// pointsOfTiming are about the timing of the cluster.
func pointsOfTiming() []point {
	return []point{
		{of: "G11", clause: "with rebalance mode stop-the-world a proposal holds everything", planted: []string{"pause: a proposal holds only what moves"}},
		{
			of: "G11", clause: "and so it does until a map of the leader whose lease it is",
			planted: []string{"pause: a map of any leader ends it", "pause: the lease of another leader changes no route"},
		},
		{of: "timing", clause: "a node obeys the answer, not its flags", planted: []string{"timing: a node obeys its flags"}},
		{of: "timing", clause: "and a leader the state", planted: []string{"timing: a leader waits and grants by its flags"}},
		{of: "timing", clause: "nothing is granted by a timing that is not committed", planted: []string{"timing: a leader grants by what is not committed"}},
		{of: "timing", clause: "every wait takes the larger of two", planted: []string{"timing: a leader takes by the one in force, though it is the smaller"}},
		{of: "timing", clause: "and of two takeover policies the later one", planted: []string{"timing: of two takeovers the one in force holds"}},
		{of: "timing", clause: "the next change waits until the one before is over", planted: []string{"timing: changes follow each other at once"}},
		{of: "timing", clause: "which each leader counts anew", planted: []string{"timing: a new leader counts from the change before it"}},
		{of: "timing", clause: "a change names what it replaces", planted: []string{"timing: two changes replace the same one"}},
		{
			of: "timing", clause: "and its term",
			explained: "What it replaces must be in force still, so no leader between the two terms has changed anything, and the time to wait had " +
				"passed when it was decided on. A second lock, as with the digest of rule 2; TestOnlyTheNextTimingCounts.",
		},
		{of: "rule 8", clause: "snapshots hold both timings", planted: []string{"rule 8: snapshots forget the timing before"}},
	}
}

func pointsOfLeases() []point {
	return []point{
		{of: "leases", clause: "a lower boot is not heard", planted: []string{"leases: a heartbeat of a lower boot counts, and nobody asks who else is there"}},
		{of: "leases", clause: "an answer to another boot does not count", planted: []string{"an answer to another boot counts"}},
		{
			of: "leases", clause: "a node told of a higher boot of itself takes the next one",
			planted: []string{
				"leases: a node that is told of a higher boot of itself keeps its own",
			},
		},
		{of: "leases", clause: "nothing is granted beyond Q + lease", planted: []string{"a lease is granted beyond Q"}},
		{of: "leases", clause: "voters are those of the latest configuration", planted: []string{"the voters are those of the election"}},
		{of: "leases", clause: "the first lease of a boot needs a later Q", planted: []string{"the first lease of a boot needs no later Q"}},
		{
			of: "leases", clause: "no lease after a goodbye, none for a gateway",
			planted: []string{
				"leases: who said goodbye gets leases",
				"leases: a gateway gets leases",
			},
		},
		{of: "leases", clause: "OK to the last map proposed, and to nothing else", planted: []string{"G5: OK to whatever is acknowledged"}},
		{of: "leases", clause: "the lease is looked at again before the first byte", planted: []string{"the lease is not looked at again before the first byte"}},
		{
			of: "leases", clause: "a second process under a node's id waits for the first",
			explained: "With a disk of its own it is let into Raft only when nothing runs under the name, see membership; the leader asks again, for " +
				"the first may come back: a second lock, TestSecondProcessUnderANameIsRefused, TestAnotherDiskWaitsForRequestsOfTheFirst, " +
				"TestNodeWithoutEchoWaitsForLeasesOfThePreviousLeader. That it is asked at all is half of why 2 and why 4.",
		},
		{
			of: "leases", clause: "restart_grace lets the leader wait for a return, and its own pauses are nobody's silence",
			explained: "Both save moves and decide nothing else: a schedule in ten draws a grace; TestPausedLeaderDropsNobody, " +
				"TestPauseDoesNotCountAgainstAcknowledgements.",
		},
		{
			of: "leases", clause: "a clock that jumped voids the lease",
			explained: "In the model, as docs/internals/protocol.md assumes, a clock runs on while its process is stopped, so the lease's end is seen anyway. Needed " +
				"where a guest's clock is stopped with it: TestPauseVoidsTheLease.",
		},
		{of: "leases", clause: "evidence comes from a redial begun after the election", planted: []string{"leases: evidence found before the election counts after it"}},
		{
			of: "leases", clause: "a node listens before its first heartbeat",
			explained: "Else a redial finds nobody where a new boot already speaks. What that proves is about the boot whose connection broke, see " +
				"why 7: it saves a round.",
		},
		{
			of: "leases", clause: "an operator's word is for a node that is not heard",
			planted: []string{
				"an operator's word hits a node that is heard",
				"an operator's word outlives the return of the node",
			},
		},
		{of: "membership", clause: "a name goes to another disk when its shards may be taken", planted: []string{
			"membership: a node's name goes to another disk once it is not heard", "membership: crash evidence frees a node's name under takeover timeout",
		}},
		{of: "membership", clause: "a vote is given to who echoes the leader's answers", planted: []string{"membership: who was only heard gets a vote"}},
		{of: "membership", clause: "what is said is on the disk before", planted: []string{
			"membership: a vote is given before it is synced", "membership: entries are acknowledged before they are synced", "leases: a boot is stated before it is synced",
		}},
		{of: "birth", clause: "a cluster is born once", planted: []string{"birth: a cluster is born again"}},
		{of: "membership", clause: "another disk is another server", planted: []string{"membership: a wiped disk votes under the name of the old one"}},
	}
}

// Every point is planted or explained, and every mistake belongs to a point. With -v this
// prints the table.
func TestEveryPointIsPlantedOrExplained(t *testing.T) {
	known := map[string]bool{}
	for _, m := range mistakes() {
		if known[m.name] {
			t.Errorf("two mistakes are called %q", m.name)
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
			t.Errorf("%s: %s: want either mistakes or an explanation", p.of, p.clause)
		}
		for _, name := range p.planted {
			used[name] = true
			if !known[name] {
				t.Errorf("%s: %s: no mistake is called %q", p.of, p.clause, name)
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
		if of := fmt.Sprintf("why %d", i+1); !met[of] {
			t.Errorf("why %d of docs/internals/protocol-reasons.md is neither planted nor explained", i+1)
		}
	}
	for i := range 10 {
		if of := fmt.Sprintf("rule %d", i+1); !met[of] {
			t.Errorf("%s of docs/internals/protocol.md is neither planted nor explained", of)
		}
	}
	for name := range known {
		if !used[name] {
			t.Errorf("no point says what the mistake %q is about", name)
		}
	}
	t.Logf("%d points, %d mistakes:\n%s", len(points()), len(known), table.String())
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
