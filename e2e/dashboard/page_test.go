//go:build linux

package dashboard_test

import (
	"fmt"
	"strings"
	"testing"

	"shardway/admin/api"
	"shardway/admin/auth"
	"shardway/diagnosis"
	"shardway/e2e/dashboard"
	"shardway/e2e/kit/browser"
	"shardway/event"
	"shardway/shardmap"
)

// shown is true after the script has shown its data.
const shown = `!document.getElementById("shards").hidden && document.getElementById("detail").textContent !== "" && document.querySelector("#rows .swatch")`

// show opens the page of a scene and waits until its script has shown it. Errors of the
// browser fail the test.
func show(t *testing.T, b *browser.Browser, scene *dashboard.Scene, v browser.View) *browser.Page {
	t.Helper()
	url, _ := serve(t, scene, auth.Access{})
	page := b.Open(t, url+"/status", v)
	page.Await(t, "the script shows the cluster", shown)
	t.Cleanup(func() {
		for _, c := range page.Errors() {
			t.Error("the browser complains: " + c)
		}
		page.Close(t)
	})
	return page
}

// pageTests are the subtests, which share one browser.
type pageTests struct{ b *browser.Browser }

// TestPageInABrowser shows invented clusters in one browser.
func TestPageInABrowser(t *testing.T) {
	l := pageTests{browser.StartOrSkip(t)}
	t.Run("script keeps the served texts", l.templateAndScriptAgree)
	t.Run("names are text", l.namesAreEscaped)
	t.Run("by keyboard alone", l.keyboardNavigation)
	t.Run("finds keys", l.findsShardOfKey)
	t.Run("counts sockets", l.websocketCounts)
	t.Run("fits a phone", l.fitsAPhone)
	t.Run("shows moves", l.showsPendingMoves)
	t.Run("shows services", l.showsServices)
	t.Run("shows no services without a list", l.showsNoServices)
	t.Run("requires a token", l.requiresToken)
	t.Run("shows that its data is outdated", l.showsOutdatedData)
}

// The template and then the script show the same text.
func (l pageTests) templateAndScriptAgree(t *testing.T) {
	moving := dashboard.NewScene(5, 256)
	moving.Fail(2)
	warned := dashboard.NewScene(2, 64)
	warned.AddFindings(
		diagnosis.Finding{Code: diagnosis.EvenVoters, Severity: diagnosis.Warning, Text: "there are 2 voters, and the loss of either stops the cluster", Remedy: "add a third node"},
		diagnosis.Finding{Code: diagnosis.Paused, Severity: diagnosis.Info, Text: "planned moves are paused", Remedy: "run `shardway resume` to end it"},
	)
	instances := dashboard.NewScene(3, 64)
	instances.Change(func(st *api.Status) {
		st.Nodes[1].Instances = []api.Instance{{Number: 1, State: "active", Shards: 1}, {Number: 2, State: "unhealthy"}, {Number: 3, State: "active", Shards: 20}}
	})
	type pageTexts struct {
		Texts []string
		Rows  [][]string
	}
	selectors := []string{"#severity", "#headline", "#findings", "#facts", "#nodes-sum", "title"}
	// The script adds the data that only the nodes have.
	readTexts := fmt.Sprintf(`({
		Texts: %s.map(s => document.querySelector(s)?.innerText ?? ""),
		Rows: [...document.querySelectorAll("#rows tr")].map(r => [...r.cells].filter(c => !["lease", "running", "waiting", "version"].includes(c.dataset.col)).map(c => c.textContent.trim().replace(/\s+/g, " "))),
	})`, list(selectors))
	for name, scene := range map[string]*dashboard.Scene{"well": dashboard.NewScene(3, 256), "moving": moving, "warned": warned, "instances": instances} {
		url, _ := serve(t, scene, auth.Access{})
		// Without a script the page reloads every two seconds, so all texts are read at
		// once.
		plain := l.b.Open(t, url+"/status", browser.View{Width: 1280, Height: 900, NoScript: true})
		var served, rendered pageTexts
		plain.Eval(t, readTexts, &served)
		plain.Close(t)
		live := l.b.Open(t, url+"/status", desk)
		live.Await(t, "the script shows the cluster", shown)
		live.Eval(t, readTexts, &rendered)
		live.Close(t)
		for i, selector := range selectors {
			if served.Texts[i] != rendered.Texts[i] {
				t.Errorf("%s: %s has the served text %q, and the script shows %q", name, selector, served.Texts[i], rendered.Texts[i])
			}
		}
		if name == "instances" && !strings.Contains(fmt.Sprint(served.Rows[0]), "healthy 1: 1 shard · 2: 0 shards, unhealthy · 3: 20 shards") {
			t.Errorf("the first row is %q, want the node with an unhealthy instance", served.Rows[0])
		}
		if fmt.Sprint(served.Rows) != fmt.Sprint(rendered.Rows) || len(served.Rows) < 2 {
			t.Errorf("%s: rows are served as\n%q\nand the script makes them\n%q", name, served.Rows, rendered.Rows)
		}
	}
}

// Any node that joins chooses its own ID and zone.
func (l pageTests) namesAreEscaped(t *testing.T) {
	const evil = `"><img src=x onerror="window.hurt=1"><script>window.hurt=1</script>`
	scene := dashboard.NewScene(3, 64)
	scene.Change(func(st *api.Status) {
		for i := range st.Nodes {
			n := &st.Nodes[i]
			n.ID, n.Zone, n.AppVersion, n.State = n.ID+evil, evil, evil, evil
			n.Region, n.Version, n.Roles, n.Meta = evil, evil, []string{evil}, map[string]string{evil: evil}
		}
		st.Node, st.Leader, st.Cluster = st.Nodes[0].ID, st.Nodes[1].ID, evil
	})
	scene.AddFindings(diagnosis.Finding{Code: evil, Severity: diagnosis.Warning, Text: evil, Remedy: evil}, diagnosis.Finding{Code: evil, Severity: diagnosis.Warning, Text: evil, Remedy: evil})
	page := show(t, l.b, scene, desk)
	page.Await(t, "the id is shown unchanged", fmt.Sprintf("document.querySelector('#rows bdi').textContent.includes(%q)", evil))
	page.Press(t, "Tab")
	page.Press(t, "Tab")
	page.Await(t, "the owner of the shard is shown unchanged", fmt.Sprintf(`(document.getElementById("grid").focus(), document.getElementById("detail").textContent.includes(%q))`, evil))
	var hurt, images, scripts int
	page.Eval(t, "window.hurt ?? 0", &hurt)
	page.Eval(t, "document.images.length", &images)
	page.Eval(t, "document.scripts.length", &scripts)
	if hurt != 0 || images != 0 || scripts != 1 {
		t.Errorf("a name became markup: ran %d, %d images, %d scripts", hurt, images, scripts)
	}
}

// focused describes the focused element.
const focused = `document.activeElement.id || document.activeElement.className || document.activeElement.textContent`

// A hundred nodes and 16 384 shards have a handful of stops of the Tab key. The arrow
// keys move between the shards.
func (l pageTests) keyboardNavigation(t *testing.T) {
	page := show(t, l.b, dashboard.NewScene(100, 16384), desk)
	var stops []string
	for range 20 {
		page.Press(t, "Tab")
		var at string
		page.Eval(t, focused, &at)
		if len(stops) > 0 && at == stops[0] || at == "" {
			break
		}
		stops = append(stops, at)
	}
	if got, want := fmt.Sprint(stops), "[swatch more grid key Find nodes shards endpoints map metrics]"; !strings.HasPrefix(got, strings.TrimSuffix(want, "]")) {
		t.Errorf("Tab stops at %v, want %s", got, want)
	}
	page.Eval(t, `document.getElementById("grid").focus()`, nil)
	for _, step := range []struct{ key, at string }{
		{"Home", "0"}, {"ArrowRight", "1"}, {"ArrowRight", "2"}, {"ArrowLeft", "1"}, {"ArrowUp", "1"}, {"End", "16383"}, {"ArrowRight", "16383"}, {"Home", "0"},
	} {
		page.Press(t, step.key)
		page.Await(t, step.key+" leads to shard "+step.at, fmt.Sprintf(`document.getElementById("cell").textContent.startsWith("Shard %s: n")`, step.at))
	}
	page.Press(t, "ArrowDown")
	page.Await(t, "the page shows why the shard is on its node", `/^Shard \d\d+: n\d+ · since epoch \d+/.test(document.getElementById("detail").textContent)`)
	page.Eval(t, `document.querySelector(".swatch").focus()`, nil)
	page.Press(t, "ArrowDown")
	page.Press(t, "Enter")
	page.Await(t, "the second node's shards are shown", `document.querySelectorAll("#rows tr")[1].hasAttribute("data-lit") && document.querySelectorAll("#rows tr")[1].querySelector(".swatch").ariaPressed === "true"`)
	page.Eval(t, `document.getElementById("more").focus()`, nil)
	page.Press(t, "Enter")
	page.Await(t, "all nodes are shown", `document.querySelectorAll("#rows tr").length === 100`)
}

// WebSockets are shown with the load of the node of their clients, and with their shard.
// Their moves are events.
func (l pageTests) websocketCounts(t *testing.T) {
	scene := dashboard.NewScene(3, 64)
	scene.Ring.Add(event.Event{Kind: event.WebSocketsMoved, Sockets: &event.Sockets{Shards: 3, Sockets: 120, Gaps: 2, Lost: 1, LongestMS: 412}})
	page := show(t, l.b, scene, desk)
	page.Await(t, "the node of the clients has them", `/^\d+ 16 resumable, 2 detached$/.test(document.querySelector("#rows tr td[data-col=running]").textContent)`)
	page.Await(t, "the other nodes have none", `[...document.querySelectorAll("#rows td[data-col=running]")].slice(1).every(c => /^\d+$/.test(c.textContent))`)
	page.Eval(t, `document.getElementById("grid").focus()`, nil)
	for key, want := range map[string]string{"Home": "13 WebSockets, 2 detached", "ArrowRight": "7 WebSockets, 4 not resumable"} {
		if key == "ArrowRight" {
			page.Press(t, "Home")
		}
		page.Press(t, key)
		page.Await(t, "the shard has "+want, fmt.Sprintf(`document.getElementById("detail").textContent.endsWith(%q)`, want))
	}
	page.Await(t, "the event is shown", `document.getElementById("history").textContent.includes("120 WebSockets of 3 shards moved2 with a gap, 1 lost, interrupted for up to 412 ms")`)
}

// The page computes the shard of any key like the nodes.
func (l pageTests) findsShardOfKey(t *testing.T) {
	const shards = 1000 // not a power of two
	scene := dashboard.NewScene(3, shards)
	page := show(t, l.b, scene, desk)
	m := scene.Map()
	keys := []string{"a", "alice", "Zoë", "日本", "😀", "7", " a b ", "%2e?&key=x", "<b>"}
	for n := range 40 {
		keys = append(keys, strings.Repeat("0123456789abcdef", 6)[:n+1])
	}
	var said []string
	page.Eval(t, fmt.Sprintf(`(() => %s.map(k => {
		document.getElementById("key").value = k;
		document.querySelector("#locate button").click();
		return document.getElementById("located").textContent;
	}))()`, list(keys)), &said)
	for i, key := range keys {
		shard := int(shardmap.ShardOf(key, shards))
		n := m.Nodes[m.Owners[shard]]
		if want := fmt.Sprintf("Shard %d, at %s (%s).", shard, n.ID, n.HTTP); i >= len(said) || said[i] != want {
			t.Fatalf("key %q: %q, want %q", key, said, want)
		}
	}
	var asked []string
	page.Eval(t, `performance.getEntriesByType("resource").map(r => r.name).filter(n => n.includes("alice") || n.includes("locate"))`, &asked)
	if len(asked) > 0 {
		t.Errorf("a key went out: %v", asked)
	}
}

func list(texts []string) string {
	quoted := make([]string, len(texts))
	for i, s := range texts {
		quoted[i] = fmt.Sprintf("%q", s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// On a phone no horizontal scrolling is needed.
func (l pageTests) fitsAPhone(t *testing.T) {
	for _, scene := range []*dashboard.Scene{dashboard.NewScene(3, 1024), dashboard.NewScene(100, 16384)} {
		scene.Change(func(st *api.Status) {
			st.Nodes[0].ID, st.Node = "a-node-with-a-very-long-name.rack-17.example.internal", "a-node-with-a-very-long-name.rack-17.example.internal"
		})
		scene.AddFindings(diagnosis.Finding{Code: diagnosis.EvenVoters, Severity: diagnosis.Warning, Text: "a sentence about " + strings.Repeat("longwords", 12), Remedy: strings.Repeat("longwords", 12)})
		page := show(t, l.b, scene, phone)
		for _, width := range []int{320, 360, 412, 768, 1024} {
			page.SetView(t, browser.View{Width: width, Height: 740, Scale: 2, Phone: width < 768})
			page.Await(t, fmt.Sprintf("%d is wide enough", width), fmt.Sprintf("innerWidth === %d && document.documentElement.scrollWidth <= %d", width, width))
		}
	}
}

// Moves are visible: the pending ones, and those of the last map.
func (l pageTests) showsPendingMoves(t *testing.T) {
	scene := dashboard.NewScene(5, 1024)
	page := show(t, l.b, scene, browser.View{Width: 1280, Height: 900, ReducedMotion: true, DarkMode: true})
	scene.Fail(2)
	page.Await(t, "the moves and their cause are shown", `/20\d moving · 20\d unavailable \(n3\)/.test(document.getElementById("shards-sum").textContent)`)
	page.Await(t, "the proposed change is shown", `/^\d\d:\d\d:\d\d epoch 18 proposed 20\d shards moved, because: crashed n3 → n1 \d+ /.test([...document.querySelectorAll("#history li:first-child .line > *")].map(e => e.textContent).join(" "))`)
	page.Await(t, "the broken node comes first", `document.querySelector("#rows tr").dataset.node === "n3" && document.querySelector("#rows td[data-col=state]").textContent === "failed"`)
	scene.Commit("crashed")
	page.Await(t, "the new map is shown", `/20\d moved by epoch 18/.test(document.getElementById("shards-sum").textContent)`)
	page.Await(t, "the change is shown with its phases", `document.querySelectorAll("#history li").length === 4 && document.querySelector("#history li:nth-child(1) .took").textContent === "into the log 3.4 msall acknowledged 1.5 scommit 4.1 ms1.5 s in all" && document.querySelector("#history .open") === null`)
	m := scene.Moves(moved(scene))
	page.Eval(t, `document.getElementById("grid").focus()`, nil)
	for range moved(scene) {
		page.Press(t, "ArrowRight")
	}
	page.Await(t, "the reason of a move is shown", fmt.Sprintf(`document.getElementById("detail").textContent === "Shard %d: %s · since epoch 18 · from n3, because: crashed"`, m[0].Shard, m[0].To))
}

// moved returns the first shard of the last move.
func moved(scene *dashboard.Scene) uint32 {
	for i := uint32(0); ; i++ {
		if len(scene.Moves(i)) > 0 {
			return i
		}
	}
}

// A port that requires tokens gives the page no data without one, and the page does not
// store it.
func (l pageTests) requiresToken(t *testing.T) {
	const token = "read-0123456789abcdefghij"
	tokens, err := auth.ParseTokens([]byte("reader " + token))
	if err != nil {
		t.Fatal(err)
	}
	url, _ := serve(t, dashboard.NewScene(3, 256), auth.Access{Read: tokens})
	page := l.b.Open(t, url+"/status", desk)
	page.Await(t, "the page asks for a token", `!document.getElementById("unlock").hidden && document.getElementById("cluster").hidden`)
	for _, try := range []struct{ token, then string }{
		{strings.Repeat("x", 30), `document.getElementById("unlock-said").textContent === "unknown token"`},
		{token, shown + ` && document.getElementById("unlock").hidden`},
	} {
		page.Eval(t, `document.getElementById("token").focus()`, nil)
		page.Type(t, try.token)
		page.Press(t, "Enter")
		page.Await(t, "the token is judged", try.then)
	}
	var kept string
	page.Eval(t, `JSON.stringify([location.href, document.cookie, {...localStorage}, {...sessionStorage}, document.documentElement.outerHTML.includes("`+token+`")])`, &kept)
	if strings.Contains(kept, "0123456789") || !strings.HasSuffix(kept, "false]") {
		t.Errorf("the token is kept: %s", kept)
	}
	for _, c := range page.Errors() {
		if !strings.Contains(c, "401") { // the console reports each response with that status
			t.Error(c)
		}
	}
}

// A page with outdated data must say so.
func (l pageTests) showsOutdatedData(t *testing.T) {
	scene := dashboard.NewScene(3, 256)
	scene.Change(func(st *api.Status) { st.Nodes[1].Endpoints = map[string]string{"admin": "127.0.0.1:1234"} })
	url, end := serve(t, scene, auth.Access{})
	page := l.b.Open(t, url+"/status", desk)
	page.Await(t, "it is live", shown+` && document.getElementById("live").textContent === "Live from n1"`)
	end()
	page.Await(t, "the page shows that its data is outdated", `document.documentElement.dataset.severity === "lost" && /^Not live: n1 was last heard \d+\.0 s ago$/.test(document.getElementById("headline").textContent) && document.title.startsWith("? Not live")`)
	page.Await(t, "the page links to another node", `document.querySelector("#elsewhere a").href === "http://127.0.0.1:1234/status"`)
}
