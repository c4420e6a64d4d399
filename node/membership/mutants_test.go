package membership_test

import (
	"os"
	"os/exec"
	"regexp"
	"testing"

	"shardway/internal/overlay"
)

// mutant is a possible mistake of the bootstrap, and a pattern of the failure that must report
// it.
type mutant struct {
	name, caught string
	edits        []overlay.Edit
}

func in(decl, old, changed string) []overlay.Edit {
	return []overlay.Edit{{Decl: decl, Old: old, New: changed}}
}

func mutants() []mutant {
	const two, few = "two clusters", "have promised"
	return []mutant{
		{"a promise is forgotten at a restart", two + "|" + few, in("node/membership.Bootstrapper.currentPromise", "	node, err := b.options.Dir.PromisedNode()\n", "	node, err := b.options.Dir.PromisedNode()\n	if PLANTED {\n		node = \"\"\n	}\n")},
		{"a promise is not on the disk when it is given", two + "|" + few, in("node/membership.Bootstrapper.storePromise", "	if err == nil && current.node != node {\n", "	if err == nil && current.node != node && !PLANTED {\n")},
		{"a promise is given to two", two + "|" + few, in("node/membership.Bootstrapper.grantPromise", "	case current.node != \"\" && current.node != requester:\n", "	case !PLANTED && current.node != \"\" && current.node != requester:\n")},
		{"a promise is taken back from who may need it", two + "|" + few, in("node/membership.Bootstrapper.withdrawStale", "		if err != nil || needs {\n", "		if !PLANTED && (err != nil || needs) {\n")},
		{"a founder counts itself twice", few, in("node/membership.Bootstrapper.eligibleNodes", "			nodes = append(nodes, member.ID)\n", "			nodes = append(nodes, member.ID)\n			if PLANTED && member.ID == b.options.Self {\n				nodes = append(nodes, member.ID)\n			}\n")},
		{"most of those that are expected are enough", few, in("node/membership.Bootstrapper.tryBootstrap", "	if len(nodes) < b.options.BootstrapExpect ||", "	if len(nodes) < b.options.BootstrapExpect && (!PLANTED || len(nodes) <= b.options.BootstrapExpect/2) ||")},
		{"nobody is asked for its promise", "progress", in("node/membership.Bootstrapper.tryBootstrap", " || !b.allAgree(ctx, nodes, true) {", " || !PLANTED && !b.allAgree(ctx, nodes, true) {")},
		{"one that has given way founds", two + "|" + few, in("node/membership.Bootstrapper.tryBootstrap", "getErr != nil || current.node != b.options.Self || b.BelongsToCluster()", "getErr != nil || !PLANTED && current.node != b.options.Self || b.BelongsToCluster()")},
		{"nobody gives way, and each waits for the other", "progress", in("node/membership.Bootstrapper.withdrawStale", "	if err != nil || current.node == \"\" || current.node == requester {\n", "	if PLANTED || err != nil || current.node == \"\" || current.node == requester {\n")},
	}
}

// TestEachBootstrapMutantIsDetected builds this package with each mistake and runs
// TestEveryScheduleBootstrapsAtMostOneCluster, which must fail.
func TestEachBootstrapMutantIsDetected(t *testing.T) {
	var edits [][]overlay.Edit
	for _, m := range mutants() {
		edits = append(edits, m.edits)
	}
	binary := overlay.BuildTests(t, "../..", "node/membership", edits)
	for i, m := range mutants() {
		cmd := exec.CommandContext(t.Context(), binary, "-test.run=^TestEveryScheduleBootstrapsAtMostOneCluster$")
		cmd.Env = append(os.Environ(), overlay.Switch+"="+overlay.Number(i))
		out, err := cmd.CombinedOutput()
		if err == nil || !regexp.MustCompile(`schedule \d+: .*(`+m.caught+`)`).Match(out) {
			t.Errorf("%s: %v, want a failure of %q\n%s", m.name, err, m.caught, out)
			continue
		}
		t.Logf("%s:\n%s", m.name, out)
	}
}
