package diskhistory_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"shardway/node/disk"
	"shardway/node/diskhistory"
)

// Each case is a report of a disk with these records: boot 5 as process 50, term 7, and epoch 30 applied.
func TestCheckDetectsRollback(t *testing.T) {
	known := disk.DiskRecord{Server: "b/x", Boot: 5, Nonce: 50, Term: 7, Applied: 30}
	for _, c := range []struct {
		boot, nonce, term, last uint64
		back                    string // the expected error, or "" if there is none
	}{
		{5, 50, 7, 33, ""},
		{6, 60, 7, 30, ""},
		{9, 60, 9, 99, ""},
		{4, 60, 7, 33, "its boot 4, and its boot 5 is known"},
		{5, 60, 7, 33, "another process was its boot 5"},
		{6, 60, 6, 33, "it is in term 6, and it was in term 7"},
		{6, 60, 7, 29, "its log ends at 29, and it had applied the map of epoch 30"},
		// Messages of one process may arrive out of order.
		{4, 50, 6, 20, ""},
		{6, 50, 6, 20, ""},
		// The report is empty.
		{1, 0, 0, 0, ""},
	} {
		err := diskhistory.Check(known, diskhistory.Statement{Server: "b/x", Boot: c.boot, Nonce: c.nonce, Term: c.term, Last: c.last})
		rollback, is := errors.AsType[*diskhistory.RollbackError](err)
		if is != (c.back != "") || is && (!strings.Contains(err.Error(), c.back) || rollback.Server != "b/x") {
			t.Errorf("boot %d, process %d, term %d, log to %d: %v, want %q", c.boot, c.nonce, c.term, c.last, err, c.back)
		}
	}
	if err := diskhistory.Check(disk.DiskRecord{}, diskhistory.Statement{Server: "b/x", Boot: 1, Nonce: 1}); err != nil {
		t.Errorf("of a disk nothing is known of: %v", err)
	}
}

func TestTableKeepsTheHighestStatement(t *testing.T) {
	table := diskhistory.New(nil)
	learn := func(s diskhistory.Statement) {
		t.Helper()
		if err := table.Learn(s); err != nil {
			t.Fatal(err)
		}
	}
	table.Term("b/x", 9) // a disk without records
	learn(diskhistory.Statement{Server: "b/x", Boot: 2, Nonce: 20, Term: 3, Last: 12, Applied: 10})
	learn(diskhistory.Statement{Server: "b/x", Boot: 2, Nonce: 20, Term: 2, Last: 12, Applied: 11}) // a message that arrives late
	table.Term("b/x", 5)
	learn(diskhistory.Statement{Server: "b/x", Boot: 3, Nonce: 30, Term: 5, Last: 12})
	learn(diskhistory.Statement{Server: "b/y", Boot: 1, Nonce: 40}) // a wiped directory
	want := fmt.Sprint([]disk.DiskRecord{{Server: "b/x", Boot: 3, Nonce: 30, Term: 5, Applied: 11}, {Server: "b/y", Boot: 1, Nonce: 40}})
	if got := fmt.Sprint(table.All()); got != want {
		t.Errorf("known: %s, want %s", got, want)
	}
	if got := fmt.Sprint(diskhistory.New(table.All()).All()); got != want {
		t.Errorf("known after a restart: %s, want %s", got, want)
	}
	if err := table.Learn(diskhistory.Statement{Server: "b/x", Boot: 2, Nonce: 20, Term: 9, Last: 99}); err == nil {
		t.Error("a process of before was learnt from")
	}
	if got := fmt.Sprint(table.All()); got != want {
		t.Errorf("known: %s, want %s", got, want)
	}
}

func TestRepeatedStatementDoesNotChangeTable(t *testing.T) {
	table := diskhistory.New(nil)
	s := diskhistory.Statement{Server: "b/x", Boot: 2, Nonce: 20, Term: 3, Last: 12, Applied: 10}
	changed := func() bool {
		select {
		case <-table.Changed():
			return true
		default:
			return false
		}
	}
	for i := range 3 {
		if err := table.Learn(s); err != nil {
			t.Fatal(err)
		}
		table.Term("b/x", 3)
		if changed() != (i == 0) {
			t.Errorf("changed by statement %d", i)
		}
	}
}

func TestTableIsBounded(t *testing.T) {
	table := diskhistory.New(nil)
	server := func(i int) string { return fmt.Sprintf("n%d/x", i) }
	for i := range diskhistory.Most + 10 {
		if err := table.Learn(diskhistory.Statement{Server: server(i), Boot: 1, Nonce: 1}); err != nil {
			t.Fatal(err)
		}
		table.Term(server(0), uint64(i)) // messages of it arrive all the time
	}
	if n := len(table.All()); n != diskhistory.Most {
		t.Errorf("%d disks known, want %d", n, diskhistory.Most)
	}
	for i, want := range map[int]bool{0: true, 1: false, 10: false, 11: true, diskhistory.Most + 9: true} {
		if got := table.Of(server(i)).Boot != 0; got != want {
			t.Errorf("disk %d is known: %v, want %v", i, got, want)
		}
	}
}

// A node reports its own disk id. Once, a node that reported a thousand ids displaced the records of all other nodes.
func TestOneNodeDoesNotPushOutTheOthers(t *testing.T) {
	table := diskhistory.New(nil)
	say := func(node string, disk int) {
		t.Helper()
		if err := table.Learn(diskhistory.Statement{Server: fmt.Sprintf("%s/%d", node, disk), Boot: 1, Nonce: 1}); err != nil {
			t.Fatal(err)
		}
	}
	say("b", 0)
	say("c", 0)
	for i := range 2 * diskhistory.Most {
		say("x", i)
	}
	for _, server := range []string{"b/0", "c/0", fmt.Sprintf("x/%d", 2*diskhistory.Most-1)} {
		if table.Of(server).Boot == 0 {
			t.Errorf("disk %s is forgotten", server)
		}
	}
	if n := len(table.All()); n != 2+diskhistory.MostOfOne {
		t.Errorf("%d disks known, want %d", n, 2+diskhistory.MostOfOne)
	}
}

// Records that are loaded late count as if they had been loaded first: they are merged, and a process that was accepted in the meantime with an
// older image of its disk is rejected from then on.
func TestWhatIsRecalledCountsAsIfItHadBeenKnownFirst(t *testing.T) {
	table := diskhistory.New(nil)
	for _, s := range []diskhistory.Statement{
		{Server: "b/x", Boot: 6, Nonce: 60, Term: 9, Last: 40, Applied: 20},
		{Server: "c/x", Boot: 2, Nonce: 21, Term: 3, Last: 40, Applied: 20},
		{Server: "d/x", Boot: 1, Nonce: 10, Term: 3, Last: 40, Applied: 20},
	} {
		if err := table.Learn(s); err != nil {
			t.Fatal(err)
		}
	}
	table.Recall([]disk.DiskRecord{
		{Server: "b/x", Boot: 5, Nonce: 50, Term: 7, Applied: 30},
		{Server: "c/x", Boot: 5, Nonce: 50, Term: 7, Applied: 30},
		{Server: "e/x", Boot: 1, Nonce: 11},
	})
	for server, want := range map[string]disk.DiskRecord{
		"b/x": {Server: "b/x", Boot: 6, Nonce: 60, Term: 9, Applied: 30},
		"c/x": {Server: "c/x", Boot: 5, Nonce: 50, Term: 7, Applied: 30},
		"d/x": {Server: "d/x", Boot: 1, Nonce: 10, Term: 3, Applied: 20},
		"e/x": {Server: "e/x", Boot: 1, Nonce: 11},
	} {
		if got := table.Of(server); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	if err := table.Judge(diskhistory.Statement{Server: "c/x", Boot: 2, Nonce: 21, Term: 9, Last: 40}); err == nil {
		t.Error("the older image of c's disk passes still")
	}
	select {
	case <-table.Changed():
	default:
		t.Error("nobody is told that there is something to keep")
	}
}
