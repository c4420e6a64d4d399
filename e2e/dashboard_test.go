//go:build linux

package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"shardway/e2e/kit/browser"
)

// TestDashboardShowsKilledNode opens the page of one of three nodes, and kills another.
// The page shows the failure, the recovery, and the shards of the returned node. Then
// both other nodes are killed, and the page shows that more nodes are needed. At last its
// own node is killed, and the page shows that it has no data.
func TestDashboardShowsKilledNode(t *testing.T) {
	t.Parallel() // it waits for elections most of the time
	b := browser.StartOrSkip(t)
	c := start(t, 3)
	leader := c.Leader(t)
	others := c.Others(leader)
	here, victim := others[0], others[1]
	page := b.Open(t, "http://"+here.Admin+"/status", browser.View{Width: 1280, Height: 900})
	page.Await(t, "the script shows the cluster", `!document.getElementById("shards").hidden`)
	state := func(node, state string) string {
		return fmt.Sprintf(`document.querySelector("#rows tr[data-node='%s'] td[data-col=state]")?.textContent === %q`, node, state)
	}
	all := `[...document.querySelectorAll("#rows td[data-col=state]")].every(c => c.textContent === "active")`
	page.Await(t, "all is well", all)

	killed := time.Now()
	victim.Kill(t)
	page.Await(t, "the page shows that the node failed", state(victim.ID, "failed"))
	said := time.Since(killed)
	page.Await(t, "the page shows its shards at others", fmt.Sprintf(`document.querySelector("#rows tr[data-node='%s'] td[data-col=share] bdi").textContent === "0" && / moved by epoch /.test(document.getElementById("shards-sum").textContent) && !/unavailable/.test(document.getElementById("shards-sum").textContent)`, victim.ID))
	healed := time.Since(killed)
	t.Logf("after kill -9 of %s the page of %s said so in %v, and that its shards are served elsewhere in %v", victim.ID, here.ID, said.Round(time.Millisecond), healed.Round(time.Millisecond))

	victim.Start(t)
	page.Await(t, "the node is back and has its share", state(victim.ID, "active")+fmt.Sprintf(` && Number(document.querySelector("#rows tr[data-node='%s'] td[data-col=share] bdi").textContent) > 40`, victim.ID))
	for _, c := range page.Errors() {
		t.Error("the browser complains: " + c)
	}

	victim.Kill(t)
	leader.Kill(t)
	page.Await(t, "the page shows that a quorum is missing, and that no shard is served", `/no-quorum/.test(document.getElementById("word").textContent) && document.documentElement.dataset.severity === "outage" && / 128 unavailable \(/.test(document.getElementById("shards-sum").textContent)`)

	here.Kill(t)
	page.Await(t, "the page shows that it has no data", `document.documentElement.dataset.severity === "lost"`)
}
