package docs_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"shardway/diagnosis"
)

// runbooks are the pages with one section for each finding.
func runbooks() []string {
	return []string{"docs/operate/runbooks.md", "docs/operate/runbooks-warnings.md", "docs/operate/runbooks-apps.md", "docs/operate/runbooks-info.md"}
}

// TestEveryFindingHasARunbook checks that each finding has exactly one section in the runbooks,
// with all parts, and that no section is about a code that does not exist.
func TestEveryFindingHasARunbook(t *testing.T) {
	all := pages(t)
	left := slices.Concat(diagnosis.Codes(), diagnosis.DoctorCodes())
	for _, page := range runbooks() {
		sections := strings.Split(all[page], "\n## ")
		for _, section := range sections[1:] {
			title, text, _ := strings.Cut(section, "\n")
			code := diagnosis.Code(title)
			if !slices.Contains(left, code) {
				t.Errorf("%s: %q is no finding, or has two sections", page, title)
			}
			left = slices.DeleteFunc(left, func(c diagnosis.Code) bool { return c == code })
			for _, part := range []string{"\n**", "\n- **Impact**: ", "\n- **Check**: ", "\n- **Fix**: ", "\n- **Verify**: "} {
				if !strings.Contains(text, part) {
					t.Errorf("%s: section %q has no %q", page, title, strings.TrimSpace(part))
				}
			}
		}
	}
	if len(left) > 0 {
		t.Errorf("no runbook has a section for %q", left)
	}
}

// TestEveryAlertHasARunbook checks that the annotation runbook_url of each alert leads to a
// heading of a page. An alert on several findings leads to the heading of each.
func TestEveryAlertHasARunbook(t *testing.T) {
	all := pages(t)
	for _, alert := range strings.Split(prometheusFile(t, rules), "- alert: ")[1:] {
		name, _, _ := strings.Cut(alert, "\n")
		url := regexp.MustCompile(`\n +runbook_url: (\S+)#(\S+)\n`).FindStringSubmatch(alert)
		if url == nil {
			t.Errorf("alert %s has no runbook_url", name)
			continue
		}
		headings := url[2:]
		if codes := regexp.MustCompile(`code=~"([^"]+)"`).FindStringSubmatch(alert); codes != nil && url[2] == "{{$labels.code}}" {
			headings = strings.Split(codes[1], "|")
		}
		for _, heading := range headings {
			if !slices.Contains(anchors(all[url[1]]), heading) {
				t.Errorf("alert %s: %s has no heading #%s", name, url[1], heading)
			}
		}
	}
}

// TestPagesOfTasksAreShort checks the limit for pages below docs/start, docs/apps, docs/operate
// and docs/reference.
func TestPagesOfTasksAreShort(t *testing.T) {
	generated := map[string]bool{"docs/reference/config.md": true, "docs/reference/cli.md": true, "docs/reference/metrics.md": true}
	for page, text := range pages(t) {
		if generated[page] {
			continue
		}
		text = regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(text, "") // programs may be long
		if strings.Count(page, "/") > 1 && !strings.HasPrefix(page, "docs/internals/") && len(text) > 12<<10 {
			t.Errorf("%s has %d bytes, want at most 12 KB", page, len(text))
		}
	}
}

// TestReasonsOfClosesAreDocumented checks that the reason texts in the table of close codes are
// those of the proxy.
func TestReasonsOfClosesAreDocumented(t *testing.T) {
	code := sources(t)
	rows := regexp.MustCompile("(?m)^\\| 1\\d{3} \\| .* \\| `([^`]+)` \\|$").FindAllStringSubmatch(pages(t)["docs/apps/websockets.md"], -1)
	if len(rows) < 5 {
		t.Fatalf("the table of close codes has %d rows with a reason", len(rows))
	}
	for _, row := range rows {
		if !strings.Contains(code, `"`+row[1]+`"`) {
			t.Errorf("docs/apps/websockets.md: the program closes with no reason %q", row[1])
		}
	}
}
