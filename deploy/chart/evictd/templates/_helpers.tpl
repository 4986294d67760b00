{{- /* The name of the objects, but for the policies: a cluster has one evictd, whose name they and their messages have. */}}
{{- define "evictd.fullname" -}}
{{- .Values.fullnameOverride | default "evictd" }}
{{- end }}

{{- define "evictd.namespace" -}}
{{- .Values.namespaceOverride | default .Release.Namespace }}
{{- end }}

{{- /* By these the DaemonSet selects its pods. */}}
{{- define "evictd.selectorLabels" -}}
app.kubernetes.io/name: {{ .Values.nameOverride | default "evictd" }}
{{- end }}

{{- /* The labels of every object. */}}
{{- define "evictd.labels" -}}
{{ include "evictd.selectorLabels" . }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
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
  namespace: {{ include "evictd.namespace" . }}
{{- end }}

{{- /* A policy applies to evictd's account alone, wherever the release is. */}}
{{- define "evictd.policyForAccount" -}}
- name: evictd
  expression: request.userInfo.username == 'system:serviceaccount:{{ include "evictd.namespace" . }}:{{ .Values.serviceAccount.name }}'
{{- end }}

{{- /* The node that the token names; empty if it names none. */}}
{{- define "evictd.policyNode" -}}
- name: node
  expression: >-
    has(request.userInfo.extra) && 'authentication.kubernetes.io/node-name' in request.userInfo.extra
    ? request.userInfo.extra['authentication.kubernetes.io/node-name'][0] : ''
{{- end }}

{{- /* Of the chart and a policy's name. */}}
{{- define "evictd.policyBinding" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ last . }}
  labels: {{ include "evictd.labels" (first .) | nindent 4 }}
spec:
  policyName: {{ last . }}
  validationActions: [Deny]
{{- end }}

{{- /* Which of extraArgs `evictd doctor` needs too: they are variables, which every command in the pod reads. */}}
{{- define "evictd.argsOfDoctor" -}}^--(kubeconfig|kubepods-cgroup{{ if not .Values.kubeletConfig.enabled }}|kubelet-config{{ end }})={{- end }}

{{- /* The arguments of `evictd run`. */}}
{{- define "evictd.args" -}}
- run
{{- range .Values.extraArgs }}
{{- if not (regexMatch (include "evictd.argsOfDoctor" $) .) }}
- {{ . | quote }}
{{- end }}
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
{{- range list "commonLabels" "podLabels" }}
{{- if hasKey (index $.Values . | default dict) "app.kubernetes.io/name" }}
{{- fail (printf "%s may not have app.kubernetes.io/name: set nameOverride" .) }}
{{- end }}
{{- end }}
{{- if not .Values.ownNodePolicies.enabled }}
{{- range list "taint" "bestEffort" }}
{{- if (index $.Values .).enabled }}
{{- fail (printf "%s.enabled needs ownNodePolicies.enabled: without the policies the right is not confined to evictd's own node" .) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
