package docs_test

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"shardway/admin/api"
	"shardway/diagnosis"
	"shardway/event"
	"shardway/event/webhook"
	"shardway/node/eventlog"
)

const eventsPage = "docs/reference/events.md"

// section returns the text below a heading of eventsPage, up to the next one of its level.
func section(t *testing.T, heading string) string {
	t.Helper()
	text := pages(t)[eventsPage]
	_, text, ok := strings.Cut(text, "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("%s has no section %q", eventsPage, heading)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

// named returns what the first cells of a section's table have between backquotes.
func named(t *testing.T, heading string) []string {
	t.Helper()
	var all []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]+) \\|").FindAllStringSubmatch(section(t, heading), -1) {
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			all = append(all, m[1])
		}
	}
	return all
}

// same compares what eventsPage names with what the program has.
func same(t *testing.T, documented, known []string) {
	t.Helper()
	if len(known) == 0 {
		t.Fatal("nothing to compare with")
	}
	for _, n := range documented {
		if !slices.Contains(known, n) {
			t.Errorf("%s describes %q, which the program does not have", eventsPage, n)
		}
	}
	for _, n := range known {
		if !slices.Contains(documented, n) {
			t.Errorf("%s does not describe %q", eventsPage, n)
		}
	}
}

// fields returns the JSON names of a struct's fields.
func fields(of reflect.Type) []string {
	var all []string
	for f := range of.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "-" {
			all = append(all, name)
		}
	}
	return all
}

// The page about webhooks has the metrics and the attributes of a CloudEvent.
func TestWebhookPageHasTheAttributes(t *testing.T) {
	text := pages(t)["docs/reference/webhooks.md"]
	for _, name := range webhook.Attributes() {
		if !strings.Contains(text, `"`+name+`"`) && !strings.Contains(text, "| `"+name+"` |") {
			t.Errorf("docs/reference/webhooks.md does not describe the attribute %q", name)
		}
	}
}

func TestEventsOfThePageAreThoseOfTheProgram(t *testing.T) {
	var kinds []string
	for _, k := range event.Kinds() {
		kinds = append(kinds, k.String())
	}
	same(t, named(t, "Kinds"), kinds)
	same(t, named(t, "Phases"), event.Phases())
	same(t, named(t, "Fields"), fields(reflect.TypeFor[event.Event]()))
	same(t, named(t, "Reasons of leader-lost"), eventlog.LostReasons())
	same(t, named(t, "Steps of a join"), event.JoinSteps())
	for _, name := range fields(reflect.TypeFor[event.MovedShards]()) {
		if !strings.Contains(section(t, "Lists of shards"), "`"+name+"`") {
			t.Errorf("%s does not describe the field %q of a list of shards", eventsPage, name)
		}
	}
	text := section(t, "Fields")
	for _, of := range []reflect.Type{reflect.TypeFor[event.Change](), reflect.TypeFor[event.ShardMoves](), reflect.TypeFor[event.Phase](), reflect.TypeFor[event.Join](), reflect.TypeFor[diagnosis.Finding](), reflect.TypeFor[event.AdminAction]()} {
		for _, name := range fields(of) {
			if !strings.Contains(text, "`"+name+"`") {
				t.Errorf("%s does not describe the field %q of %s", eventsPage, name, of)
			}
		}
	}
	for _, name := range fields(reflect.TypeFor[api.EventList]()) {
		if !strings.Contains(section(t, "HTTP"), `"`+name+`"`) {
			t.Errorf("%s does not say that a list has %q", eventsPage, name)
		}
	}
	for _, reason := range []string{event.LostRestarted, event.LostOverrun} {
		if !strings.Contains(section(t, "Kinds"), "`"+reason+"`") {
			t.Errorf("%s does not explain %q", eventsPage, reason)
		}
	}
}
