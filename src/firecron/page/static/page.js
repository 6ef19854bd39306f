const seen = await (await fetch("api/jobs")).json();
for (const row of seen.jobs) {
  const item = document.createElement("li");
  item.textContent = `${row.job}: ${row.verdict}`;
  document.querySelector("ul").append(item);
}
