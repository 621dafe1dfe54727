{{- define "selat.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 30 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 30 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "selat.selector" -}}
app.kubernetes.io/name: selat
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "selat.labels" -}}
{{ include "selat.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "selat.image" -}}
{{- $image := index .root.Values.images .role -}}
{{- if $image.digest }}{{ $image.repository }}@{{ $image.digest }}{{ else }}{{ $image.repository }}:{{ $image.tag | default .root.Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "selat.masterAddress" -}}
{{- if .Values.masterAddress }}{{ .Values.masterAddress }}{{ else if .Values.master.enabled }}{{ include "selat.name" . }}-master:7410{{ else }}{{ fail "masterAddress must be HOST:PORT of the master when master.enabled is false" }}{{ end }}
{{- end }}

{{- define "selat.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "selat.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "selat.storage" -}}
- metadata: {name: state}
  spec:
    accessModes: [ReadWriteOnce]
    {{- with .className }}
    storageClassName: {{ . }}
    {{- end }}
    resources: {requests: {storage: {{ .size }}}}
{{- end }}
