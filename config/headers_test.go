package config_test

import (
	"strings"
	"testing"

	"shardway/config"
)

func TestHeaderRulesAreRead(t *testing.T) {
	const text = "headers:\n  request: {set: {X-Env: prod}, remove: [X-Debug, X-Trace]}\n  response:\n    add: {Link: '</a>; rel=preload'}\nroutes:\n  /a:\n    headers: {response: {set: {Cache-Control: no-store}}}\n  /b: [ip]\n"
	c, err := config.Load([]string{"--config=f.yaml"}, nil, yamlFile(text))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, value := range c.Values() {
		got[value.Key] = value.Value + " from " + value.Origin
	}
	for name, want := range map[string]string{
		"headers":   "request: remove X-Debug; remove X-Trace; set X-Env: prod; response: add Link: </a>; rel=preload from f.yaml:1",
		"routes /a": "headers: response: set Cache-Control: no-store from f.yaml:5",
	} {
		if got[name] != want {
			t.Errorf("%s = %q, want %q", name, got[name], want)
		}
	}
	if keys := c.KeyRoutes(); len(keys) != 1 {
		t.Errorf("header rules change the key configuration: %v", keys)
	}
	for changed, want := range map[string]string{strings.Replace(text, "prod", "test", 1): "headers", strings.Replace(text, "no-store", "no-cache", 1): "routes"} {
		next, err := config.Load([]string{"--config=f.yaml"}, nil, yamlFile(changed))
		if err != nil {
			t.Fatal(err)
		}
		if changes := next.ChangesSince(&c); len(changes.Live) != 1 || changes.Live[0] != want {
			t.Errorf("changes = %+v, want %s", changes, want)
		}
	}
}

func TestInvalidHeaderRulesHaveRemedy(t *testing.T) {
	for text, want := range map[string]string{
		"headers: x":                                                                                    "is not a table",
		"headers: {requests: {}}":                                                                       "did you mean request?",
		"headers: {request: [x]}":                                                                       "the value of request is not a table",
		"headers: {request: {sets: {}}}":                                                                "did you mean set?",
		"headers: {request: {set: [x]}}":                                                                "the value of set is not a table",
		"headers: {request: {set: {a: [x]}}}":                                                           "the value of the field a has the wrong form",
		"headers: {request: {set: {a: 1, a: 2}}}":                                                       "twice",
		"headers: {request: {set: {a: 1, A: 2}}}":                                                       "twice",
		"headers: {request: {remove: {a: b}}}":                                                          "write names like",
		"headers: {request: {set: {Host: a}}}":                                                          `request.set: "Host": HTTP or Shardway itself needs the field Host; remove the rule`,
		"headers: {response: {remove: [Date]}}":                                                         `response.remove: "Date"`,
		"headers: {response: {set: {X-A: \"a\\r\\nb\"}}}":                                               "not the value",
		"headers: {request: {set: {X-Shard-Key: a}}}":                                                   "read another key",
		"key: jwt:sub\nheaders: {request: {set: {Authorization: a}}}":                                   "read another key",
		"routes:\n  /a: [cookie:sid]\nheaders: {request: {add: {Cookie: a=b}}}":                         "read another key",
		"routes: {/a: {key: ['json:/id'], headers: {request: {set: {Content-Type: text/plain}}}}}":      `"/a": headers: request.set`,
		"routes: {/a: {headers: {response: {add: {Shardway-Epoch: 1}}}}}":                               `"/a": headers: response.add: "Shardway-Epoch"`,
		"routes: {/a: {headers: {response: {add: {X: 1, Y: 2}, remove: [Z]}}}}\nheaders: {request: {}}": "",
	} {
		_, err := config.Load([]string{"--config=f.yaml"}, nil, yamlFile(text+"\n"))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), "config: ") != 1) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
