{{- /* The labels of every object. The names of the objects are fixed: a cluster has one evictd. */}}
{{- define "evictd.labels" -}}
app.kubernetes.io/name: evictd
{{- end }}

{{- define "evictd.image" -}}
{{- with .Values.image }}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{- /* The account in the roles' bindings. */}}
{{- define "evictd.subjects" -}}
- kind: ServiceAccount
  name: {{ .Values.serviceAccount.name }}
  namespace: {{ .Release.Namespace }}
{{- end }}

{{- /* A policy applies to evictd's account alone, wherever the release is. */}}
{{- define "evictd.policyForAccount" -}}
- name: evictd
  expression: request.userInfo.username == 'system:serviceaccount:{{ .Release.Namespace }}:{{ .Values.serviceAccount.name }}'
{{- end }}

{{- /* The node that the token names; empty if it names none. */}}
{{- define "evictd.policyNode" -}}
- name: node
  expression: >-
    has(request.userInfo.extra) && 'authentication.kubernetes.io/node-name' in request.userInfo.extra
    ? request.userInfo.extra['authentication.kubernetes.io/node-name'][0] : ''
{{- end }}

{{- define "evictd.policyBinding" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ . }}
  labels: {{ include "evictd.labels" . | nindent 4 }}
spec:
  policyName: {{ . }}
  validationActions: [Deny]
{{- end }}

{{- /* The arguments of `evictd run`. */}}
{{- define "evictd.args" -}}
- run
- --config=/etc/evictd/evictd.yaml
- --host-root=/host
- --http-bind-address={{ .Values.http.address }}:{{ .Values.http.port }}
{{- if .Values.state.enabled }}
- --state-dir=/var/lib/evictd
{{- end }}
{{- if .Values.kubeletConfig.enabled }}
- --kubelet-config=/kubelet-config.yaml
{{- end }}
{{- with .Values.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* A probe of a path. Pods are on the node's network: on a fixed address the kubelet must use the same. */}}
{{- define "evictd.httpGet" -}}
path: {{ .path }}
port: metrics
{{- if and .address (not (hasPrefix "$(" .address)) }}
host: {{ .address | trimPrefix "[" | trimSuffix "]" }}
{{- end }}
{{- end }}

{{- /* Where the images' directory is seen. evictd knows three; of another only the filesystem matters. */}}
{{- define "evictd.imagesMountPath" -}}
{{- if has .Values.hostPaths.images (list "/var/lib/containers/storage" "/var/lib/docker") }}/host{{ .Values.hostPaths.images }}
{{- else }}/host/var/lib/containerd
{{- end }}
{{- end }}

{{- /* Values that do not go together. A sentence says why. */}}
{{- define "evictd.check" -}}
{{- if and .Values.diskNode.enabled .Values.kubepodsTrigger.enabled }}
{{- fail "diskNode.enabled and kubepodsTrigger.enabled do not combine: set one of them to false" }}
{{- end }}
{{- if not .Values.ownNodePolicies.enabled }}
{{- range list "taint" "bestEffort" }}
{{- if (index $.Values .).enabled }}
{{- fail (printf "%s.enabled needs ownNodePolicies.enabled: without the policies the right is not confined to evictd's own node" .) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
