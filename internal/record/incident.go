package record

import (
	"fmt"
	"strings"

	"go.uber.org/zap"

	"github.com/evictd/evictd/internal/incident"
)

// IncidentBegan writes down that the node became short of something.
func (r *Recorder) IncidentBegan(i *incident.Incident) {
	r.logger.Warn(messageIncident, zap.String(keyIncident, i.ID), zap.Stringer(keySignal, i.Signal),
		zap.String(keyUnit, string(i.Signal.Unit())), zap.Int64(keyAvailable, i.Lowest), zap.Time(keySince, i.Began.UTC()))
}

// IncidentEnded writes down that a shortage is over, and what was done against it: by evictd,
// by the kubelet and by the kernel.
func (r *Recorder) IncidentEnded(i *incident.Incident) {
	fields := []zap.Field{
		zap.String(keyIncident, i.ID), zap.Stringer(keySignal, i.Signal), zap.String(keyUnit, string(i.Signal.Unit())),
		zap.Time(keySince, i.Began.UTC()), zap.Float64(keyDuration, i.Short.Sub(i.Began).Seconds()), zap.Int64(keyLowest, i.Lowest),
		zap.Strings(keyVictims, podsOf(i.Victims)), zap.Strings(keyKubelets, i.During.Kubelets),
	}
	if i.During.OOMKills >= 0 {
		fields = append(fields, zap.Int64(keyOOMKills, i.During.OOMKills))
	}
	r.logger.Info(messageOver, append(fields, zap.String(keyDetail, whatHappened(i)))...)
}

func podsOf(victims []incident.Victim) []string {
	pods := make([]string, 0, len(victims))
	for _, v := range victims {
		pods = append(pods, v.Pod)
	}
	return pods
}

// whatHappened says in sentences which pods were evicted in an incident, and in a dry run what
// happened instead.
func whatHappened(i *incident.Incident) string {
	var evicted, would []string
	for _, v := range i.Victims {
		if v.DryRun {
			would = append(would, v.Pod)
		} else {
			evicted = append(evicted, v.Pod)
		}
	}
	var said []string
	if len(evicted) > 0 {
		said = append(said, "evictd evicted "+list(evicted, i.More))
	}
	if len(would) > 0 {
		said = append(said, "dry run: evictd would have evicted "+list(would, i.More))
	}
	if len(said) == 0 {
		said = append(said, "evictd evicted no pod")
	}
	return strings.Join(append(said, others(&i.During)), "; ")
}

// others says what the kubelet and the kernel did.
func others(o *incident.Others) string {
	var said []string
	if len(o.Kubelets) > 0 {
		said = append(said, "the kubelet evicted "+list(o.Kubelets, 0))
	}
	switch {
	case o.OOMKills < 0:
		said = append(said, "whether the kernel killed a process for want of memory is not known")
	case o.OOMKills > 0:
		said = append(said, fmt.Sprintf("the kernel killed %d processes for want of memory", o.OOMKills))
	}
	if len(said) == 0 {
		return "the kubelet and the kernel ended nothing"
	}
	return strings.Join(said, ", ")
}

// listed is how many names a sentence has.
const listed = 8

// list joins names, and counts those that it leaves out and that were left out before.
func list(names []string, more int) string {
	if left := len(names) - listed; left > 0 {
		names, more = names[:listed], more+left
	}
	text := strings.Join(names, ", ")
	if more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
