package diagnosis

import (
	"fmt"
	"time"
)

const (
	// expiryWarningTime is how long before its expiry a certificate is reported.
	expiryWarningTime = 14 * 24 * time.Hour
	// tagsNearlyFullPercent is the used share of the gossip tags, in percent, above which it is
	// reported.
	tagsNearlyFullPercent = 90
	// webhookWarningTime is how long a webhook must fail before it is reported.
	webhookWarningTime = time.Minute
)

// machineFindings returns the findings about disk, clock, certificates and configuration of this
// node.
func machineFindings(in Inputs) (findings []Finding) {
	warn := func(code Code, remedy, format string, args ...any) {
		findings = append(findings, Finding{Code: code, Severity: Warning, Text: fmt.Sprintf(format, args...), Remedy: remedy})
	}
	if in.DiskStalled {
		warn(DiskStalled, "check the disk of --data, or stop this node: the others carry on without it", "a write to the disk of node %s is stalled", in.Self)
	} else if in.SlowestWrite > 0 {
		warn(DiskSlow, "check which other programs write to the disk of --data, or use a separate disk", "a write to the disk of node %s took %v", in.Self, rounded(in.SlowestWrite))
	}
	if in.PausedFor > 0 {
		warn(ClockJump, "check for a suspended machine, a stopped process, swapping or a CPU limit",
			"node %s did not run for %v, or its clock jumped, and a lease is %v", in.Self, rounded(in.PausedFor), in.Lease)
	}
	if in.QueueRefused > 0 {
		warn(QueueFull, "run `shardway status` to see why requests wait, or raise --queue-requests and --queue-bytes",
			"node %s refused requests lately because too many wait: %d refused, %d waiting", in.Self, in.QueueRefused, in.QueueWaiting)
	}
	if in.FailingProcesses > 0 {
		finding := Finding{
			Code: ProcessFailing, Severity: Warning, Remedy: "run `shardway processes` at this node, and look for the output of the app in its log",
			Brief: fmt.Sprintf("processes of the app of node %s fail", in.Self),
		}
		finding.Text = finding.Brief + fmt.Sprintf(" for %d keys or shards: %s", in.FailingProcesses, in.ProcessError)
		findings = append(findings, finding)
	}
	if finding, isFailing := webhookFinding(in); isFailing {
		findings = append(findings, finding)
	}
	if in.MaxGossipTagBytes > 0 && in.GossipTagBytes*100 >= in.MaxGossipTagBytes*tagsNearlyFullPercent {
		warn(TagsNearlyFull, "announce less: use fewer or shorter values of --meta, --role, --endpoint, --zone, --region and --app-version",
			"the gossip tags of node %s use %d of %d bytes", in.Self, in.GossipTagBytes, in.MaxGossipTagBytes)
	}
	if in.UpgradeBlocker != "" {
		warn(UpgradePending, "run the newest version on these nodes, or `shardway remove` those that are gone for good (`shardway upgrade status`)",
			"format version %d is in force, and format version %d is blocked by %s", in.FormatVersion, in.NextFormatVersion, in.UpgradeBlocker)
	}
	for _, certificate := range in.Certificates {
		findings = append(findings, certificateFindings(in, certificate)...)
	}
	for _, exposure := range in.Exposures {
		findings = append(findings, Finding{Code: Insecure, Severity: Warning, Subject: exposure.Remedy, Text: exposure.Text, Brief: fmt.Sprintf("node %s accepts unauthenticated connections", in.Self), Remedy: exposure.Remedy})
	}
	return findings
}

// webhookFinding reports a receiver of events that has not acknowledged for webhookWarningTime, or events that were lost.
func webhookFinding(in Inputs) (_ Finding, isFailing bool) {
	isStuck := in.WebhookFailingFor >= webhookWarningTime
	if in.WebhookReceiver == "" || !isStuck && in.WebhookLost == 0 {
		return Finding{}, false
	}
	finding := Finding{
		Code: WebhookFailing, Severity: Warning, Brief: "the webhook does not acknowledge the events of node " + in.Self,
		Remedy: "check the receiver, or set another --webhook and reload; read missing events with `shardway events`",
	}
	finding.Text = fmt.Sprintf("the webhook %s does not acknowledge the events of node %s", in.WebhookReceiver, in.Self)
	if isStuck {
		finding.Text += fmt.Sprintf(" for %v: %s", rounded(in.WebhookFailingFor), in.WebhookError)
	}
	if in.WebhookLost > 0 {
		finding.Text += fmt.Sprintf("; %d events were lost", in.WebhookLost)
	}
	return finding, true
}

// certificateFindings reports a certificate that has expired or expires within expiryWarningTime.
func certificateFindings(in Inputs, certificate Certificate) []Finding {
	remaining := certificate.ExpiresAt.Sub(in.Now)
	if in.Now.IsZero() || remaining >= expiryWarningTime {
		return nil
	}
	finding := Finding{
		Code: CertificateExpiring, Severity: Warning, Subject: certificate.Purpose,
		Text:   fmt.Sprintf("the certificate of node %s for %s expires on %s", in.Self, certificate.Purpose, certificate.ExpiresAt.UTC().Format(time.DateOnly)),
		Remedy: "replace the file of --" + certificate.Flag + " with a new certificate: the node reads it automatically",
	}
	if remaining <= 0 {
		finding.Text = fmt.Sprintf("the certificate of node %s for %s expired on %s", in.Self, certificate.Purpose, certificate.ExpiresAt.UTC().Format(time.DateOnly))
	}
	return []Finding{finding}
}

// rounded rounds a duration for a message.
func rounded(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}
