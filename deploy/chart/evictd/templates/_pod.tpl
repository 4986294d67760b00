{{- /* What the DaemonSet's pods and the doctor's of `helm test` have in common. */}}

{{- /* Whether evictd runs as root; empty if not. */}}
{{- define "evictd.root" -}}
{{- if or .Values.diskNode.enabled .Values.kubepodsTrigger.enabled }}true{{ end }}
{{- end }}

{{- /* The kubepods cgroup's file for triggers. */}}
{{- define "evictd.kubepodsPressure" -}}
{{- if eq .Values.kubepodsTrigger.cgroupDriver "cgroupfs" }}/sys/fs/cgroup/kubepods/memory.pressure
{{- else }}/sys/fs/cgroup/kubepods.slice/memory.pressure
{{- end }}
{{- end }}

{{- define "evictd.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 64535
runAsGroup: 64535
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "evictd.securityContext" -}}
{{- if include "evictd.root" . }}
runAsNonRoot: false
runAsUser: 0
runAsGroup: 0
{{- end }}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
  {{- if .Values.diskNode.enabled }}
  add: [DAC_READ_SEARCH, SYS_PTRACE]
  {{- else if .Values.kubepodsTrigger.enabled }}
  add: [SYS_RESOURCE]
  {{- end }}
{{- end }}

{{- define "evictd.env" -}}
- name: NODE_NAME
  valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
- name: HOST_IP
  valueFrom: {fieldRef: {fieldPath: status.hostIP}}
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
- name: POD_UID
  valueFrom: {fieldRef: {fieldPath: metadata.uid}}
{{- /* A flag --x-y that is left out is read from EVICTD_X_Y. http.address may have $(HOST_IP), of above. */}}
- name: EVICTD_CONFIG
  value: /etc/evictd/evictd.yaml
- name: EVICTD_HOST_ROOT
  value: /host
- name: EVICTD_HTTP_BIND_ADDRESS
  value: {{ printf "%s:%v" .Values.http.address .Values.http.port | quote }}
- name: EVICTD_DEBUG_BIND_ADDRESS
  value: {{ .Values.http.debugAddress | quote }}
{{- if .Values.state.enabled }}
- name: EVICTD_STATE_DIR
  value: /var/lib/evictd
{{- end }}
{{- if .Values.record.enabled }}
- name: EVICTD_RECORD
  value: /var/lib/evictd-record
- name: EVICTD_RECORD_MAX_SIZE
  value: {{ .Values.record.maxSize | quote }}
{{- end }}
{{- if .Values.kubeletConfig.enabled }}
- name: EVICTD_KUBELET_CONFIG
  value: /kubelet-config.yaml
{{- end }}
{{- range .Values.extraArgs }}
{{- if regexMatch (include "evictd.argsOfDoctor" $) . }}
- name: EVICTD_{{ . | trimPrefix "--" | splitList "=" | first | replace "-" "_" | upper }}
  value: {{ . | splitList "=" | rest | join "=" | quote }}
{{- end }}
{{- end }}
- name: GOMEMLIMIT
  value: {{ .Values.goMemoryLimit | quote }}
- name: GOMAXPROCS
  value: "2"
{{- end }}

{{- define "evictd.volumeMounts" -}}
{{- $root := eq (include "evictd.root" .) "true" }}
{{- $file := include "evictd.kubepodsPressure" . }}
{{- $images := include "evictd.imagesMountPath" . }}
{{- /* How the kubelet's and the images' directories are mounted. */}}
{{- $directory := "readOnly: true" }}
{{- if .Values.diskNode.enabled }}
{{- $directory = "readOnly: true, mountPropagation: HostToContainer" }}
{{- else if $root }}
{{- $directory = "readOnly: true, recursiveReadOnly: IfPossible" }}
{{- end }}
{{- /* readOnly does not cover what is mounted below, where root could write. */}}
{{- $kernel := ternary "readOnly: true, recursiveReadOnly: IfPossible" "readOnly: true" $root }}
{{- if .Values.state.enabled }}
- {name: state, mountPath: /var/lib/evictd}
{{- end }}
{{- if .Values.record.enabled }}
- {name: record, mountPath: /var/lib/evictd-record}
{{- end }}
- {name: config, mountPath: /etc/evictd, readOnly: true}
- {name: proc, mountPath: /host/proc, {{ $kernel }}}
- {name: cgroup, mountPath: /host/sys/fs/cgroup, {{ $kernel }}}
- {name: kubelet, mountPath: /host/var/lib/kubelet, {{ $directory }}}
- {name: containerd, mountPath: {{ $images }}, {{ $directory }}}
{{- if .Values.diskNode.enabled }}
{{- if ne $images (printf "/host%s" .Values.hostPaths.images) }}
# The layers' paths in the node's mounts are below it.
- {name: containerd, mountPath: /host{{ .Values.hostPaths.images }}, {{ $directory }}}
{{- end }}
- {name: logs, mountPath: /host/var/log/pods, {{ $directory }}}
{{- end }}
{{- if .Values.kubepodsTrigger.enabled }}
# Writable: this file, and not the cgroups.
- {name: kubepods-pressure, mountPath: /host{{ $file }}}
{{- end }}
{{- if .Values.kubeletConfig.enabled }}
- {name: kubelet-config, mountPath: /host/kubelet-config.yaml, readOnly: true}
{{- if .Values.kubeletConfig.dropInDirectory }}
- {name: kubelet-config-drop-ins, mountPath: /host/kubelet-config.yaml.d, readOnly: true}
{{- end }}
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "evictd.volumes" -}}
{{- if .Values.state.enabled }}
- name: state
  emptyDir: {medium: Memory, sizeLimit: {{ .Values.state.sizeLimit }}}
{{- end }}
{{- if .Values.record.enabled }}
- name: record
  {{- if .Values.record.hostPath }}
  hostPath: {path: {{ .Values.record.hostPath }}, type: Directory}
  {{- else }}
  emptyDir: {}
  {{- end }}
{{- end }}
- name: config
  configMap: {name: {{ include "evictd.fullname" . }}}
- name: proc
  hostPath: {path: /proc, type: Directory}
- name: cgroup
  hostPath: {path: /sys/fs/cgroup, type: Directory}
- name: kubelet
  hostPath: {path: {{ .Values.hostPaths.kubelet }}, type: Directory}
- name: containerd
  hostPath: {path: {{ .Values.hostPaths.images }}, type: Directory}
{{- if .Values.diskNode.enabled }}
- name: logs
  hostPath: {path: /var/log/pods, type: Directory}
{{- end }}
{{- if .Values.kubepodsTrigger.enabled }}
- name: kubepods-pressure
  hostPath: {path: {{ include "evictd.kubepodsPressure" . }}, type: File}
{{- end }}
{{- if .Values.kubeletConfig.enabled }}
- name: kubelet-config
  hostPath: {path: {{ .Values.kubeletConfig.path }}, type: {{ hasSuffix ".d" .Values.kubeletConfig.path | ternary "Directory" "File" }}}
{{- with .Values.kubeletConfig.dropInDirectory }}
- name: kubelet-config-drop-ins
  hostPath: {path: {{ . }}, type: Directory}
{{- end }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
