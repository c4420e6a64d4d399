//go:build linux

package dashboard_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"shardway/admin/auth"
	"shardway/e2e/dashboard"
	"shardway/shardmap"
)

// sceneService is a service of a scene.
type sceneService struct {
	Name   string   `json:"name"`
	First  int      `json:"first"`
	Shards int      `json:"shards"`
	Nodes  []string `json:"nodes"`
}

// sceneServices returns services whose shards have equal numbers. They have 24 shards in all.
func sceneServices() []sceneService {
	return []sceneService{{"chat", 0, 12, []string{"n1", "n2", "n3"}}, {"default", 12, 8, []string{"n2"}}, {"search", 20, 4, []string{"n1", "n3"}}}
}

// withServices returns a handler of an admin port that serves the scene as a cluster with services.
func withServices(scene *dashboard.Scene, services []sceneService) http.Handler {
	inner := handler(scene, auth.Access{})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/services" {
			_ = json.NewEncoder(w).Encode(map[string]any{"epoch": 17, "services": services})
			return
		}
		if name := r.URL.Query().Get("service"); name != "" {
			number, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/v1/shards/"))
			for _, service := range services {
				if service.Name == name && number < service.Shards {
					r.URL.Path, r.URL.RawQuery = "/v1/shards/"+strconv.Itoa(service.First+number), ""
				}
			}
		}
		extended := r.URL.Path == "/v1/map" || r.URL.Path == "/status" && r.Header.Get("Accept") == "application/json"
		if !extended {
			inner.ServeHTTP(w, r)
			return
		}
		recorded := httptest.NewRecorder()
		inner.ServeHTTP(recorded, r)
		var body map[string]any
		if err := json.Unmarshal(recorded.Body.Bytes(), &body); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		body["services"] = services
		if counts, isStatus := body["shards"].(map[string]any); isStatus { // a node does not count shards of removed services
			removed, _ := counts["total"].(float64)
			for _, service := range services {
				removed -= float64(service.Shards)
			}
			orphaned, _ := counts["orphaned"].(float64)
			counts["orphaned"] = orphaned - removed
		}
		_ = json.NewEncoder(w).Encode(body)
	})
}

// The page lists the services with their ranges, nodes, owners and orphaned shards, and shows the shards of one of them
// on request. Shard numbers count within the service.
func (l pageTests) showsServices(t *testing.T) {
	scene := dashboard.NewScene(3, 27)
	services := sceneServices()
	scene.Orphan(13, 14)
	scene.Orphan(24, 25, 26) // of a removed service
	shardMap := scene.Map()
	server := httptest.NewServer(withServices(scene, services))
	t.Cleanup(server.Close)
	page := l.b.Open(t, server.URL+"/status", desk)
	t.Cleanup(func() {
		for _, c := range page.Errors() {
			t.Error("the browser complains: " + c)
		}
		page.Close(t)
	})
	page.Await(t, "the script shows the services", `document.querySelectorAll("#service-rows tr").length === 3 && document.querySelector("#service-rows td[data-col=runs]").textContent === "n1, n2, n3"`)
	var rows []string
	page.Eval(t, `[...document.querySelectorAll("#service-rows tr")].map(r => [...r.cells].map(c => c.textContent).join(" | "))`, &rows)
	for i, service := range services {
		owned, orphaned := map[string]int{}, 0
		for shard := service.First; shard < service.First+service.Shards; shard++ {
			if owner := shardMap.Owners[shard]; owner < 0 {
				orphaned++
			} else {
				owned[shardMap.Nodes[owner].ID]++
			}
		}
		var owners []string
		for _, node := range []string{"n1", "n2", "n3"} {
			if owned[node] > 0 {
				owners = append(owners, fmt.Sprintf("%s %d", node, owned[node]))
			}
		}
		want := fmt.Sprintf("%s | %d–%d (%d shards) | %s | %s | %d", service.Name, service.First, service.First+service.Shards-1, service.Shards, strings.Join(service.Nodes, ", "), strings.Join(owners, ", "), orphaned)
		if i >= len(rows) || rows[i] != want {
			t.Errorf("rows %q, want %q", rows, want)
		}
	}
	locate := func(key, want string) {
		t.Helper()
		page.Eval(t, fmt.Sprintf(`document.getElementById("key").value = %q; document.querySelector("#locate button").click()`, key), nil)
		page.Await(t, key+" is at "+want, fmt.Sprintf(`document.getElementById("located").textContent.startsWith(%q)`, want))
	}
	sum := func(want string) {
		t.Helper()
		page.Await(t, "the shards are "+want, fmt.Sprintf(`document.getElementById("shards-sum").textContent === %q`, want))
	}
	sum("24 in all · 2 orphaned")
	locate("tea", fmt.Sprintf("Shard %d of default", shardmap.ShardOf("tea", 8)))
	filter := func(name string) {
		page.Eval(t, fmt.Sprintf(`document.querySelector("#service-rows tr[data-service=%s] .filter").click()`, name), nil)
	}
	filter("search")
	sum("4 of service search")
	page.Await(t, "the button is pressed", `document.querySelector("#service-rows tr[data-service=search] .filter").ariaPressed === "true"`)
	locate("tea", fmt.Sprintf("Shard %d of search, at %s", shardmap.ShardOf("tea", 4), shardMap.Nodes[shardMap.Owners[20+shardmap.ShardOf("tea", 4)]].ID))
	page.Eval(t, `document.getElementById("grid").focus()`, nil)
	for _, step := range []struct{ key, at string }{{"Home", "0"}, {"ArrowLeft", "0"}, {"ArrowRight", "1"}, {"End", "3"}, {"ArrowRight", "3"}} {
		page.Press(t, step.key)
		page.Await(t, step.key+" leads to shard "+step.at, fmt.Sprintf(`document.getElementById("cell").textContent.startsWith("Shard %s of search: n")`, step.at))
	}
	page.Await(t, "the positions count within the service", `document.getElementById("cell").getAttribute("aria-posinset") === "4" && document.getElementById("cell").getAttribute("aria-setsize") === "4"`)
	page.Await(t, "the history is that of the shard", fmt.Sprintf(`document.getElementById("detail").textContent.includes("since epoch %d")`, scene.Shards().Shards[23].Epoch))
	filter("default")
	sum("8 of service default · 2 orphaned")
	filter("default")
	sum("24 in all · 2 orphaned")
	for _, width := range []int{320, 412, 1024} {
		view := phone
		view.Width = width
		page.SetView(t, view)
		page.Await(t, fmt.Sprintf("%d is wide enough", width), fmt.Sprintf("innerWidth === %d && document.documentElement.scrollWidth <= %d", width, width))
	}
}

// Without a list of services, the page has no table of services, and asks for none.
func (l pageTests) showsNoServices(t *testing.T) {
	page := show(t, l.b, dashboard.NewScene(3, 64), desk)
	page.Await(t, "the table is hidden", `document.getElementById("services").hidden`)
	var asked []string
	page.Eval(t, `performance.getEntriesByType("resource").map(r => r.name).filter(n => n.includes("services"))`, &asked)
	if len(asked) > 0 {
		t.Errorf("the page asked for %v", asked)
	}
}
