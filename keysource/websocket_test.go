package keysource_test

import (
	"slices"
	"strings"
	"testing"

	"shardway/keysource"
)

// Subprotocols belong to the key configuration, in their order, and are not sources.
func TestSourcesInFirstMessage(t *testing.T) {
	spec := keysource.Spec{Routes: []keysource.Route{{Prefix: "/g", Sources: []string{"header:X-A", "ws-json:/payload/t~1x", "ws-protocol:b", "ws-protocol:a", "ws-first"}}}}
	table, err := keysource.NewTable(spec)
	if err != nil {
		t.Fatal(err)
	}
	path := keysource.ParsePath(nil, []byte("/g"))
	list, _ := table.Match(&path)
	if len(list.Sources) != 3 || !slices.Equal(list.Protocols, []string{"b", "a"}) || strings.Contains(list.Description, "ws-protocol") {
		t.Errorf("%+v", list)
	}
	text, err := keysource.Config{Spec: spec, Missing: keysource.MissingReject}.Canonical()
	if err != nil || !strings.Contains(text, `["header:x-a","ws-json:/payload/t~1x","ws-protocol:b","ws-protocol:a","ws-first"]`) {
		t.Errorf("%s, %v", text, err)
	}
	if _, err := keysource.ParseConfig(text); err != nil {
		t.Error(err)
	}
}

func TestInvalidSourcesInFirstMessage(t *testing.T) {
	for sources, want := range map[string]string{
		"ws-json":                              "needs a JSON pointer",
		"ws-json:room":                         "needs a JSON pointer",
		"ws-json:/a~2":                         "needs a JSON pointer",
		"ws-first:x":                           "takes no name",
		"ws-protocol:a b":                      "needs the name of a subprotocol",
		"ws-protocol:a":                        "has no effect without ws-json or ws-first",
		"path:1,ws-protocol:a":                 "has no effect without ws-json or ws-first",
		"ws-first,ws-protocol:a,ws-protocol:a": "is there twice",
	} {
		_, err := keysource.NewTable(keysource.Spec{Sources: strings.Split(sources, ",")})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", sources, err, want)
		}
	}
}
