//go:build linux

package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"shardway/diagnosis"
)

// Status is the response of a node to GET /status.
type Status struct {
	Node          string `json:"node"`
	Boot          uint64 `json:"boot"`
	Cluster       string `json:"cluster"`
	Version       string `json:"version"`
	State         string `json:"state"`
	ClusterState  string `json:"cluster_state"`
	ClusterReason string `json:"cluster_reason"`
	Role          string `json:"role"`
	Leader        string `json:"leader"`
	LeaderSince   string `json:"leader_since"`
	LeaderLeaseMS int64  `json:"leader_lease_ms"`
	Term          uint64 `json:"term"`
	Epoch         uint64 `json:"epoch"`
	Proposed      uint64 `json:"proposed"`
	LeaseMS       int64  `json:"lease_ms"`
	UptimeS       int64  `json:"uptime_s"`
	FormatVersion uint8  `json:"format_version"`
	Shards        struct {
		Total       int `json:"total"`
		Owned       int `json:"owned"`
		Moving      int `json:"moving"`
		Orphaned    int `json:"orphaned"`
		Unavailable int `json:"unavailable"`
	} `json:"shards"`
	Queue struct {
		Queued int   `json:"queued"`
		Bytes  int64 `json:"bytes"`
	} `json:"queue"`
	Nodes    []Member            `json:"nodes"`
	Findings []diagnosis.Finding `json:"findings"`
}

// Member is one node in a Status.
type Member struct {
	ID     string `json:"id"`
	State  string `json:"state"`
	Role   string `json:"role"`
	Voter  bool   `json:"voter"`
	Shards int    `json:"shards"`
	App    string `json:"app"`
}

// FindingsText returns the findings of the node, one per line: code, sentence and remedy.
func (s Status) FindingsText() string {
	var text strings.Builder
	for _, finding := range s.Findings {
		text.WriteString(finding.String() + "\n")
	}
	return text.String()
}

// Member returns the entry of a node, or the zero Member.
func (s Status) Member(id string) Member {
	for _, member := range s.Nodes {
		if member.ID == id {
			return member
		}
	}
	return Member{}
}

// Metrics contains the values of GET /metrics by series. A series is a metric name with its labels,
// as the response contains it.
type Metrics map[string]float64

// Sum returns the sum of all series with this name whose labels contain all given texts, such as
// `reason="moving"`.
func (m Metrics) Sum(name string, labels ...string) float64 {
	sum := 0.0
next:
	for series, value := range m {
		seriesName, seriesLabels, _ := strings.Cut(series, "{")
		if seriesName != name {
			continue
		}
		for _, label := range labels {
			if !strings.Contains(seriesLabels, label) {
				continue next
			}
		}
		sum += value
	}
	return sum
}

// Has reports whether there is a series with this name.
func (m Metrics) Has(name string) bool {
	for series := range m {
		if seriesName, _, _ := strings.Cut(series, "{"); seriesName == name {
			return true
		}
	}
	return false
}

// parseMetrics parses the text format of Prometheus.
func parseMetrics(r io.Reader) (Metrics, error) {
	metrics := make(Metrics)
	for lines := bufio.NewScanner(r); lines.Scan(); {
		line := lines.Text()
		i := strings.LastIndexByte(line, ' ')
		if line == "" || line[0] == '#' || i < 0 {
			continue
		}
		value, err := strconv.ParseFloat(line[i+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("cluster: metrics: %w", err)
		}
		metrics[line[:i]] = value
	}
	return metrics, nil
}

// get reads a resource of an admin port into target.
func (c *Cluster) get(ctx context.Context, url string, target any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	return c.do(req, target)
}

// do sends a request to an admin port or an app, and decodes the response into target: as metrics
// if target is a *Metrics, otherwise as JSON. A nil target discards the response.
func (c *Cluster) do(req *http.Request, target any) error {
	resp, err := c.adminClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode >= 300 {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 300)) // the start of the body shows the error
		return fmt.Errorf("cluster: %s %s: %s %s", req.Method, req.URL, resp.Status, body)
	}
	switch target := target.(type) {
	case nil:
		_, err = io.Copy(io.Discard, resp.Body)
	case *Metrics:
		*target, err = parseMetrics(resp.Body)
	default:
		err = json.NewDecoder(resp.Body).Decode(target)
	}
	return err
}
