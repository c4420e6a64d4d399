package roster_test

import (
	"os"
	"os/exec"
	"regexp"
	"testing"

	"shardway/internal/overlay"
	"shardway/internal/raceflag"
)

// mistake is one that founding a cluster could make, and how the schedule's failure
// reads that must report it.
type mistake struct {
	name, caught string
	edits        []overlay.Edit
}

func in(decl, old, changed string) []overlay.Edit {
	return []overlay.Edit{{Decl: decl, Old: old, New: changed}}
}

func mistakes() []mistake {
	const two, few = "two clusters", "have promised"
	return []mistake{
		{"a promise is forgotten at a restart", two + "|" + few, in("node/roster.Founder.promised", "	to, err := f.o.Dir.Promised()\n", "	to, err := f.o.Dir.Promised()\n	if PLANTED {\n		to = \"\"\n	}\n")},
		{"a promise is not on the disk when it is given", two + "|" + few, in("node/roster.Founder.keep", "	if err == nil && p.to != to {\n", "	if err == nil && p.to != to && !PLANTED {\n")},
		{"a promise is given to two", two + "|" + few, in("node/roster.Founder.let", "	case p.to != \"\" && p.to != by:\n", "	case !PLANTED && p.to != \"\" && p.to != by:\n")},
		{"a promise is taken back from who may need it", two + "|" + few, in("node/roster.Founder.free", "		if err != nil || needs {\n", "		if !PLANTED && (err != nil || needs) {\n")},
		{"a founder counts itself twice", few, in("node/roster.Founder.freshNodes", "			fresh = append(fresh, m.ID)\n", "			fresh = append(fresh, m.ID)\n			if PLANTED && m.ID == f.o.Self {\n				fresh = append(fresh, m.ID)\n			}\n")},
		{"most of those that are expected are enough", few, in("node/roster.Founder.turn", "	if len(fresh) < f.o.BootstrapExpect ||", "	if len(fresh) < f.o.BootstrapExpect && (!PLANTED || len(fresh) <= f.o.BootstrapExpect/2) ||")},
		{"nobody is asked for its promise", "progress", in("node/roster.Founder.turn", " || !f.asks(ctx, fresh, true) {", " || !PLANTED && !f.asks(ctx, fresh, true) {")},
		{"one that has given way founds", two + "|" + few, in("node/roster.Founder.turn", "bad != nil || p.to != f.o.Self || f.Belongs()", "bad != nil || !PLANTED && p.to != f.o.Self || f.Belongs()")},
		{"nobody gives way, and each waits for the other", "progress", in("node/roster.Founder.free", "	if err != nil || p.to == \"\" || p.to == by {\n", "	if PLANTED || err != nil || p.to == \"\" || p.to == by {\n")},
	}
}

// TestEveryMistakeOfFoundingIsCaught builds this package with each mistake and lets the
// schedules of TestFoundingInAnyOrder find it. If an edit does not find its place any
// more, because the line has changed, change it with it.
func TestEveryMistakeOfFoundingIsCaught(t *testing.T) {
	if testing.Short() || raceflag.Detector {
		t.Skip("builds the package with mistakes, and without the race detector")
	}
	o := overlay.New("../..")
	var edits [][]overlay.Edit
	for _, m := range mistakes() {
		edits = append(edits, m.edits)
	}
	if err := o.Plant(edits); err != nil {
		t.Fatal(err)
	}
	binary, err := o.TestBinary(t.Context(), t.TempDir(), "node/roster")
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range mistakes() {
		cmd := exec.CommandContext(t.Context(), binary, "-test.run=^TestFoundingInAnyOrder$")
		cmd.Env = append(os.Environ(), overlay.Switch+"="+overlay.Number(i))
		out, err := cmd.CombinedOutput()
		if err == nil || !regexp.MustCompile(`schedule \d+: .*(`+m.caught+`)`).Match(out) {
			t.Errorf("%s: %v, want a failure of %q\n%s", m.name, err, m.caught, out)
			continue
		}
		t.Logf("%s:\n%s", m.name, out)
	}
}
